"""Run a program and write down, as a manifest, the kernels that its libraries ask for.

On a machine with a GPU the program runs as it is. With --target it runs on tensors without memory, on any machine: it
goes as far as it can without reading a value.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from precast.build.disk.scratch import write_atomically
from precast.build.plan.recorded_manifest import manifest_of
from precast.cli.shared.output import count
from precast.loader.attach.recording import Recorded, read_recording
from precast.loader.errors import ConfigError
from precast.loader.format.target import Target


def command(
    program: Annotated[list[str], typer.Argument(help="The program and its arguments, after '--'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The manifest to write.")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Record for this GPU without having one, such as sm_100a.")
    ] = None,
    library: Annotated[
        list[str] | None, typer.Option("--library", help="Attach this library; all known, if none.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The name in the manifest.")] = "recorded",
    build_for: Annotated[
        list[str] | None, typer.Option("--build-for", help="The targets in the manifest; the GPU's own, if none.")
    ] = None,
) -> None:
    """Record."""
    script = _script(program)
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        file = Path(folder) / "recording.jsonl"
        if target is not None:
            settings = {"target": str(Target.parse(target)), "libraries": library, "recording": str(file)}
            done = _run([sys.executable, "-m", "precast.build.child.record_main", json.dumps(settings), *script])
        else:
            options = [word for one in library or () for word in ("--library", one)]
            attach = [sys.executable, "-m", "precast.loader.attach", "--mode", "record", "--recording", str(file)]
            done = _run([*attach, *options, *script])
        recorded = read_recording(file.read_bytes()) if file.exists() else ()
    if not recorded:
        raise ConfigError(
            f"the program asked for no kernel of an attached library (it ended with status {done}): "
            "look at what it printed, and name its libraries with --library"
        )
    targets = build_for or [target or _own_target()]
    write_atomically(output, manifest_of(recorded, name=name, targets=targets).encode())
    libraries = ", ".join(f"{one} {_count(recorded, one)}" for one in sorted({r.library for r in recorded}))
    typer.echo(f"{output}: {count(len(recorded), 'kernel')} ({libraries})")
    if done:
        typer.echo(f"the program ended with status {done}; what it had asked for by then is kept", err=True)
        raise typer.Exit(1)


def _script(program: list[str]) -> list[str]:
    """The script and its arguments: a leading ``python`` is this Python."""
    words = program[1:] if Path(program[0]).name.startswith("python") else program
    if not words or words[0].startswith("-"):
        raise ConfigError(f"{' '.join(program)!r} names no script: write 'precast record -o FILE -- python SCRIPT ...'")
    if not Path(words[0]).is_file():
        raise ConfigError(f"{words[0]} is not a file: name the script to run")
    return words


def _run(command: list[str]) -> int:
    return subprocess.run(command, check=False, env=dict(os.environ)).returncode


def _own_target() -> str:
    from precast.loader import session

    capability = session.default.machines.driver.find().capability
    return f"sm_{capability.major}{capability.minor}{'a' if capability.major >= 9 else ''}"


def _count(recorded: tuple[Recorded, ...], library: str) -> int:
    return sum(one.library == library for one in recorded)

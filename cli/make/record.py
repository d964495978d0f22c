"""Run a program and write down, as a manifest, the kernels that its libraries ask for.

On a machine with a GPU the program runs as it is. With --target it runs on tensors without memory, on any machine: it
goes as far as it can without reading a value that a kernel computes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from precast.build.disk.scratch import write_atomically
from precast.build.plan.recordings.recorded_manifest import manifest_of, read_recorded_manifest
from precast.cli.shared.output import count
from precast.loader.attach import library_named
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.recording import Recorded, read_recording, read_untracked
from precast.loader.contract.recordings.untracked_compiles import UntrackedCompile
from precast.loader.errors import ConfigError
from precast.loader.machine.driver import NoDriver


def command(
    program: Annotated[list[str], typer.Argument(help="The program and its arguments, after '--'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The manifest to write.")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Record for this GPU without having one, such as sm_100a.")
    ] = None,
    library: Annotated[
        list[str] | None, typer.Option("--library", help="Attach this library; all known, if none.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name in the manifest; 'recorded', if none.")] = None,
    build_for: Annotated[
        list[str] | None, typer.Option("--build-for", help="The targets in the manifest; the GPU's own, if none.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the manifest, which 'record' wrote before.")] = False,
) -> None:
    """Run a program and write down, as a manifest, the kernels that its libraries ask for."""
    words = _words(program)
    for one in library or ():
        library_named(one)
    _check_output(output)
    if name is not None and not CACHE_NAME.admits(name):
        raise ConfigError(f"{name!r} is not a name of a manifest: use lower-case letters, digits and single dashes")
    before = read_recorded_manifest(output) if append and output.exists() else None
    targets = [str(Target.parse(one)) for one in build_for or [target or _own_target()]]
    if before and set(targets) != set(before.targets):
        raise ConfigError(
            f"{output} is for {', '.join(before.targets)}: record for {', '.join(targets)} in another file"
        )
    recorded, untracked, status = _recorded(words, target, library or [])
    _report(untracked)
    if not recorded:
        raise ConfigError(
            f"the program asked for no kernel of an attached library (it {_ended(status)}): "
            "look at what it printed, and name its libraries with --library"
        )
    kept = before.recorded if before else ()
    text = manifest_of((*kept, *recorded), name=name or (before.name if before else "recorded"), targets=targets)
    write_atomically(output, text.encode())
    libraries = ", ".join(f"{one} {_count(recorded, one)}" for one in sorted({r.library for r in recorded}))
    typer.echo(f"{output}: {count(len(recorded), 'kernel')} ({libraries})")
    if status:
        typer.echo(f"the program {_ended(status)}; what it had asked for by then is kept", err=True)
        raise typer.Exit(1)


def _words(program: list[str]) -> list[str]:
    """``SCRIPT ...`` or ``-m MODULE ...``: a leading ``python`` is this Python."""
    words = program[1:] if Path(program[0]).name.startswith("python") else program
    if len(words) > 1 and words[0] == "-m":
        return words
    if not words or words[0].startswith("-"):
        raise ConfigError(
            f"{' '.join(program)!r} names no script: write 'precast record -o FILE -- python SCRIPT ...', "
            "or '-m MODULE ...' in place of the script"
        )
    if not Path(words[0]).is_file():
        raise ConfigError(f"{words[0]} is not a file: name the script to run")
    return words


def _check_output(output: Path) -> None:
    """Refuse before the program runs what could not be written after it."""
    folder = output.absolute().parent
    if output.is_dir():
        raise ConfigError(f"{output} is a folder: name the file to write")
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: create it, or write the manifest elsewhere")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder} cannot be written: write the manifest elsewhere")


def _report(untracked: tuple[UntrackedCompile, ...]) -> None:
    """Say what the program compiled and the manifest does not hold."""
    for one in untracked:
        typer.echo(f"not recorded: {one.place}: {one}", err=True)


def _recorded(
    words: list[str], target: str | None, libraries: list[str]
) -> tuple[tuple[Recorded, ...], tuple[UntrackedCompile, ...], int]:
    """What a program asks for, what it compiles besides, and the status that it ends with."""
    without_compiler = find_spec("cutlass") is None
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        file = Path(folder) / "recording.jsonl"
        if target is not None:
            settings = {
                "target": str(Target.parse(target)),
                "libraries": libraries or None,
                "recording": str(file),
                "without_compiler": without_compiler,
            }
            head = ["precast.build.child.record_main", json.dumps(settings)]
        else:
            named = [word for one in libraries for word in ("--library", one)]
            head = ["precast.loader.attach", "--mode", "record", "--recording", str(file), *named]
            head += ["--without-compiler"] if without_compiler else []
        status = _run([sys.executable, "-m", *head, *words])
        data = file.read_bytes() if file.exists() else b""
        return read_recording(data), read_untracked(data), status


def _run(command: list[str]) -> int:
    """Run a program to its end. Ctrl-C goes to it as well, and it is waited for; a second one ends it.

    SIGTERM is passed on to it: what it had asked for by then is kept.
    """
    with subprocess.Popen(command) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            return child.wait()
        except KeyboardInterrupt:
            pass
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.kill()
            return child.wait()


def _ended(status: int) -> str:
    """How a program ended, in words.

    >>> _ended(3), _ended(-2)
    ('ended with status 3', 'was ended by SIGINT')
    """
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _own_target() -> str:
    """The target of this machine's GPU."""
    from precast.loader import current_session

    try:
        capability = current_session().machines.driver.find().capability
    except NoDriver as error:
        raise ConfigError(f"{error}: name the GPU to record for, such as --target sm_100a") from None
    return f"sm_{capability.major}{capability.minor}{'a' if capability.major >= 9 else ''}"


def _count(recorded: tuple[Recorded, ...], library: str) -> int:
    return sum(one.library == library for one in recorded)

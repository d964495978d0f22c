"""Run a program and write a manifest of the kernels that its libraries compile.

On a machine with a GPU the program runs as it is. With --target it runs on any machine, on tensors without memory,
until it reads a value that a kernel computes. With --engine and --model, the engine makes the model without weights,
and what its layers would compile is recorded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from precast.build.disk.scratch import write_output
from precast.build.plan.recordings.recorded_manifest import manifest_of, read_recorded_manifest
from precast.cli.shared.output import count, print_message
from precast.cli.shared.own_target import own_target
from precast.cli.shared.values import check_output_file
from precast.loader.attach import library_named
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.recording import Recorded, read_recording, read_untracked
from precast.loader.contract.recordings.untracked_compiles import UntrackedCompile
from precast.loader.errors import ConfigError

_ENGINES = ("vllm", "sglang")


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The manifest to write.", metavar="FILE")],
    program: Annotated[list[str] | None, typer.Argument(help="The program and its arguments, after '--'.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="Record for this target, such as sm_100a, without a GPU.", metavar="TARGET"
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="In place of a program: an engine, whose kernels for --model are recorded: vllm or sglang.",
            metavar="NAME",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The engine's model: its config.json. No weights are read.", metavar="FILE"),
    ] = None,
    tensor_parallel: Annotated[
        int, typer.Option("--tensor-parallel", help="Over how many GPUs the engine spreads each layer.", min=1)
    ] = 1,
    engine_option: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-option",
            help="An option as the engine's server gets it, such as kv_cache_dtype=fp8; may be repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            "--library", help="Record this library only; may be repeated. By default every known one.", metavar="NAME"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name in the manifest; by default 'recorded'.", metavar="NAME")
    ] = None,
    build_for: Annotated[
        list[str] | None,
        typer.Option(
            "--build-for",
            help="A target to list in the manifest; may be repeated. By default the recorded one.",
            metavar="TARGET",
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to the manifest, if an earlier 'record' wrote it.")
    ] = False,
) -> None:
    if engine is not None:
        words = [
            *_engine_words(engine, model, program),
            "--tensor-parallel",
            str(tensor_parallel),
            *(engine_option or ()),
        ]
        target = target or own_target("record for")
    else:
        words = _words(program, model)
    for library_name in library or ():
        library_named(library_name)
    _check_output(output)
    if name is not None and not CACHE_NAME.admits(name):
        raise ConfigError(f"{name!r} is not a name of a manifest: use lower-case letters, digits and single dashes")
    before = read_recorded_manifest(output) if append and output.exists() else None
    targets = [str(Target.parse(text)) for text in build_for or [target or own_target("record for")]]
    if before and set(targets) != set(before.targets):
        raise ConfigError(
            f"{output} is for {', '.join(before.targets)}: record for {', '.join(targets)} in another file"
        )
    run = _run_recorded(words, target, library or [])
    for compilation in run.untracked:
        print_message(f"not recorded: {compilation.place}: {compilation}")
    if not run.recorded and engine is not None and run.status:
        print_message(
            f"nothing was recorded: {engine} did not list the kernels that it compiles for this model (it"
            f" {_ended(run.status)}); the reason is printed above"
        )
        raise typer.Exit(1)
    if not run.recorded and engine is not None:
        raise ConfigError(
            f"{engine} warms up no kernel of an attached library for this model: there is nothing to build; kernels of"
            " later calls are recorded with a program that makes them"
        )
    if not run.recorded:
        raise ConfigError(
            f"the program used no kernel of an attached library (it {_ended(run.status)}): "
            "check its output, and name its libraries with --library"
        )
    kept = before.recorded if before else ()
    text = manifest_of((*kept, *run.recorded), name=name or (before.name if before else "recorded"), targets=targets)
    write_output(output, text.encode())
    numbers = Counter(kernel.library for kernel in run.recorded)
    libraries = ", ".join(f"{library_name} {number}" for library_name, number in sorted(numbers.items()))
    print(f"{output}: {count(len(run.recorded), 'kernel')} ({libraries})")
    if run.status:
        print_message(f"the program {_ended(run.status)}; {output} has the kernels that it had used by then")
        raise typer.Exit(1)


def _engine_words(engine: str, model: Path | None, program: list[str] | None) -> list[str]:
    """The program that makes an engine's model and compiles what its layers choose."""
    if engine not in _ENGINES:
        raise ConfigError(f"--engine {engine}: the engines are {', '.join(_ENGINES)}; record a program of another one")
    if program:
        raise ConfigError(f"--engine {engine} needs no program: remove {' '.join(program)!r}")
    if model is None:
        raise ConfigError(f"--engine {engine} needs the model: add --model config.json")
    config = model / "config.json" if model.is_dir() else model
    if config.name != "config.json" or not config.is_file():
        raise ConfigError(f"{config} is not a model's config.json: name that file, or the folder that has it")
    if find_spec(engine) is None:
        raise ConfigError(f"{engine} is not installed here: pip install {engine}, or record where it is")
    return ["-m", f"precast.kernels.adapters.engines.{engine}_model", str(config.absolute())]


def _words(program: list[str] | None, model: Path | None) -> list[str]:
    """``SCRIPT ...`` or ``-m MODULE ...``: a leading ``python`` is this Python."""
    if not program:
        raise ConfigError("no program is given: write it after '--', or use --engine with --model")
    if model is not None:
        raise ConfigError("--model belongs to --engine: add --engine vllm, or remove --model")
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
    """Refuse, before the program runs, a file that could not be written after it."""
    check_output_file("--output", output)
    folder = output.absolute().parent
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder} is not writable: write the manifest elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedRun:
    """The kernels that a program used, what it compiled besides, and its exit status."""

    recorded: tuple[Recorded, ...]
    untracked: tuple[UntrackedCompile, ...]
    status: int


def _run_recorded(words: list[str], target: str | None, libraries: list[str]) -> _RecordedRun:
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
            named = [word for name in libraries for word in ("--library", name)]
            head = ["precast.loader.attach", "--mode", "record", "--recording", str(file), *named]
            head += ["--without-compiler"] if without_compiler else []
        status = _run([sys.executable, "-m", *head, *words])
        data = file.read_bytes() if file.exists() else b""
    return _RecordedRun(recorded=read_recording(data), untracked=read_untracked(data), status=status)


def _run(command: list[str]) -> int:
    """Run a program to its end. It gets Ctrl-C too, and may finish; a second Ctrl-C kills it.

    SIGTERM is passed on to it, so that what it recorded by then is kept.
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

"""Run a program and write a manifest of the kernels that its libraries compile.

On a machine with a GPU the program runs as it is. With --target it runs on any machine, on tensors without memory,
until it reads a value that a kernel computes. With --engine and --model, the engine starts there without weights, and
runs batches of all sizes that its options allow. With --merge, what processes have recorded is read. With --update, a
recording is taken over after an upgrade of its libraries, as far as these still have what it names.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from precast.attach.builder.own_target import own_target
from precast.build.disk.scratch import write_output
from precast.cli.shared import options
from precast.cli.shared.manifest_options import reading
from precast.cli.shared.output import check_output_file, count, print_message
from precast.cli.shared.progress import waiting
from precast.cli.shared.project import store_folder
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError

EXAMPLES = (
    "precast record -o recorded.yaml -- python warmup.py",
    "precast record -o recorded.yaml -t sm_100a -- python -m mine.warmup -b 8",
    "precast record -o recorded.yaml --append -- python more.py",
)


def command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The manifest to write.", metavar="FILE")
    ] = None,
    program: Annotated[list[str] | None, typer.Argument(help="The program and its arguments, after '--'.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="Record for this target, such as sm_100a, without a GPU.", metavar="TARGET"
        ),
    ] = None,
    engine: options.Engine = None,
    model: options.Model = None,
    tensor_parallel: options.TensorParallel = 1,
    engine_option: options.EngineOption = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            "--library", help="Record this library only; may be repeated. By default every known one.", metavar="NAME"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="The name in the manifest; by default that of the file, and of recorded.yaml with its folder's.",
            metavar="NAME",
        ),
    ] = None,
    build_for: Annotated[
        list[str] | None,
        typer.Option(
            "--build-for",
            help="A target to list in the manifest; may be repeated. By default the recorded one.",
            metavar="TARGET",
        ),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge",
            help="In place of a program: a file of PRECAST_RECORDING, to which processes recorded; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to the manifest, if an earlier 'record' wrote it.")
    ] = False,
    update: Annotated[
        Path | None,
        typer.Option(
            "--update",
            help="In place of a program: a recording to take over after an upgrade. By default it is rewritten.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    if update is not None:
        if program or engine or merge or append or target or build_for or library or name:
            raise ConfigError("--update takes the whole recording as it is: give it with --output alone")
        _update(update, output or update)
        return
    if output is None:
        raise ConfigError("no manifest is named: add -o recorded.yaml")
    from precast.attach.builder.recorded_manifest import manifest_of, read_recorded_manifest
    from precast.attach.builder.recorded_run import ended, engine_words, read_runs, run_recorded

    if engine is not None:
        if program:
            raise ConfigError(f"--engine {engine} needs no program: remove {' '.join(program)!r}")
        words = engine_words(engine, model, tensor_parallel, engine_option or ())
        target = target or own_target("record for")
    else:
        words = [] if merge else _words(program, model)
    _check_output(output)
    if name is not None and not CACHE_NAME.admits(name):
        raise ConfigError(f"{name!r} is not a name of a manifest: use lower-case letters, digits and single dashes")
    before = read_recorded_manifest(output) if append and output.exists() else None
    same = before.targets if before and merge else None
    targets = [
        str(Target.parse(text)) for text in build_for or (target and [target]) or same or [own_target("record for")]
    ]
    if before and set(targets) != set(before.targets):
        raise ConfigError(
            f"{output} is for {', '.join(before.targets)}: record for {', '.join(targets)} in another file"
        )
    run = read_runs(merge) if merge else run_recorded(words, target, library or [], engine=engine is not None)
    for compilation in run.untracked:
        print_message(f"not recorded: {compilation.place}: {compilation}")
    if not run.recorded and engine is not None and run.status:
        print_message(
            f"nothing was recorded: {engine} did not list the kernels that it compiles for this model (it"
            f" {ended(run.status)}); the reason is printed above"
        )
        raise typer.Exit(1)
    if not run.recorded and engine is not None:
        raise ConfigError(
            f"{engine} requests no kernel of an attached library for this model and these options: there is nothing to"
            " build"
        )
    if not run.recorded:
        raise ConfigError(
            f"the program used no kernel of an attached library (it {ended(run.status)}): "
            "check its output, and name its libraries with --library"
        )
    kept = before.recorded if before else ()
    text = manifest_of(
        (*kept, *run.recorded), name=name or (before.name if before else _name_of(output)), targets=targets
    )
    write_output(output, text.encode())
    numbers = Counter(kernel.library for kernel in run.recorded)
    libraries = ", ".join(f"{library_name} {number}" for library_name, number in sorted(numbers.items()))
    source = "from recordings" if merge else f"from a start of {engine} without a GPU" if engine else "from the program"
    print(f"{output}: {count(len(run.recorded), 'kernel')} ({libraries}) {source}")
    if kept:
        new = len({kernel.key for kernel in run.recorded} - {kernel.key for kernel in kept})
        print(f"{output}: {count(len(kept) + new, 'kernel')} in all: {len(kept)} that it had, and {new} of these")
    if run.status:
        print_message(f"the program {ended(run.status)}; {output} has the kernels that it had used by then")
        raise typer.Exit(1)


def _update(recording: Path, output: Path) -> None:
    """Take over what an upgrade did not change. If anything is left out, the status is 1."""
    from precast.attach.builder.recorded_manifest import manifest_of, read_recorded_manifest
    from precast.attach.builder.recorded_update import updated_recording
    from precast.build.store.store import Store

    _check_output(output)
    before = read_recorded_manifest(recording)
    with waiting(reading(1)):
        result = updated_recording(before, recording, Store(store_folder(None)).notes)
    for kernel, reason in result.left_out:
        print_message(f"left out: {kernel.compile}@{kernel.library}: {reason}")
    if not result.kept:
        print_message(f"the installed libraries have none of the kernels of {recording}: record again; it is unchanged")
        raise typer.Exit(1)
    write_output(output, manifest_of(result.kept, name=before.name, targets=before.targets).encode())
    print(f"{output}: {count(len(result.kept), 'kernel')} of {len(before.recorded)} taken over")
    if result.left_out:
        raise typer.Exit(1)


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


def _name_of(output: Path) -> str:
    """The name of the cache and of its wheel: the file's, with the folder's before it where the file has the usual
    name, since two services must not have one name.

    >>> _name_of(Path("out/Chat_server.yaml")), _name_of(Path("/srv/Chat/recorded.yaml")), _name_of(Path("/_.yaml"))
    ('chat-server', 'chat-recorded', 'recorded')
    """
    usual = output.stem == "recorded"
    texts = (output.absolute().parent.name, output.stem) if usual else (output.stem,)
    name = "-".join(word for text in texts for word in re.findall(r"[a-z0-9]+", text.lower()))
    return name if CACHE_NAME.admits(name) else "recorded"


def _check_output(output: Path) -> None:
    """Refuse, before the program runs, a file that could not be written after it."""
    check_output_file("--output", output)
    folder = output.absolute().parent
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder} is not writable: write the manifest elsewhere")

"""A recorded run: a program, or an engine's start, with the kernels that it requested."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from precast.attach.library import library_named
from precast.attach.recordings.recording import Recorded, read_recording, read_untracked
from precast.attach.recordings.untracked_compiles import UntrackedCompile
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError

_ENGINES = ("vllm", "sglang")


def engine_words(engine: str, model: Path | None, tensor_parallel: int, engine_options: Sequence[str]) -> list[str]:
    """The program that starts an engine without a GPU, for a model without weights."""
    if engine not in _ENGINES:
        raise ConfigError(f"--engine {engine}: the engines are {', '.join(_ENGINES)}; record a program of another one")
    if model is None:
        raise ConfigError(f"--engine {engine} needs the model: add --model config.json")
    config = model / "config.json" if model.is_dir() else model
    if not config.exists():
        raise ConfigError(f"{config} does not exist: name a model's config.json, or the folder that has it")
    if config.name != "config.json" or not config.is_file():
        raise ConfigError(f"{config} is not a model's config.json: name that file, or the folder that has it")
    if find_spec(engine) is None:
        raise ConfigError(f"{engine} is not installed here: pip install {engine}, or record where it is")
    module = f"precast.attach.builder.child.engines.{engine}_model"
    return ["-m", module, str(config.absolute()), "--tensor-parallel", str(tensor_parallel), *engine_options]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """The kernels that a program used, what it compiled besides, and its exit status."""

    recorded: tuple[Recorded, ...]
    untracked: tuple[UntrackedCompile, ...]
    status: int


def read_runs(files: Sequence[Path]) -> RecordedRun:
    """What processes have recorded to files that ``PRECAST_RECORDING`` named."""
    try:
        data = b"".join(file.read_bytes().rstrip(b"\n") + b"\n" for file in files)
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be read ({error.strerror}): name a file of PRECAST_RECORDING"
        ) from error
    return RecordedRun(recorded=read_recording(data), untracked=read_untracked(data), status=0)


def run_recorded(words: list[str], target: str | None, libraries: list[str], *, engine: bool) -> RecordedRun:
    """Run a program where there is a GPU, or for a target without one; an engine starts without one only."""
    for name in libraries:
        library_named(name)  # an unknown one is refused here
    without_compiler = find_spec("cutlass") is None
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        file = Path(folder) / "recording.jsonl"
        if target is not None:
            settings = {
                "target": str(Target.parse(target)),
                "libraries": libraries or None,
                "recording": str(file),
                "without_compiler": without_compiler,
                "engine": engine,
            }
            head = ["precast.attach.builder.child.record_main", json.dumps(settings)]
        else:
            named = [word for name in libraries for word in ("--library", name)]
            head = ["precast.attach", "--mode", "record", "--recording", str(file), *named]
            head += ["--without-compiler"] if without_compiler else []
        status = run_to_end([sys.executable, "-m", *head, *words])
        data = file.read_bytes() if file.exists() else b""
    return RecordedRun(recorded=read_recording(data), untracked=read_untracked(data), status=status)


def run_to_end(command: list[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a program to its end, and return its status. It gets Ctrl-C too, and may finish; a second Ctrl-C kills it.

    SIGTERM is passed on to it, so that what it recorded by then is kept.
    """
    with subprocess.Popen(command, env=environment) as child:
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


def ended(status: int) -> str:
    """How a program ended, in words.

    >>> ended(3), ended(-2)
    ('ended with status 3', 'was ended by SIGINT')
    """
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

"""What the enumeration of a model's kernels has in common, whichever the engine.

``precast record --engine ENGINE --model config.json`` runs the engine's module of this folder as a program, on tensors
without memory. The engine makes the model, and gives the keys of the kernels that it would compile while it warms up. A
step that fails is reported and skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from precast.attach.libraries.native_stubs import NativeOperatorAbsent
from precast.attach.process import attached


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The program's arguments: the folder of the model's ``config.json``, and how it is spread over GPUs.

    >>> options(["/models/llama", "--tensor-parallel", "8"]).tensor_parallel
    8
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=folder_of_config)
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("option", nargs="*", type=option)
    return parser.parse_intermixed_args(argv)


def option(text: str) -> tuple[str, Any]:
    """An option of the engine: its name, and a JSON value or a word.

    >>> option("block_size=64"), option("kv_cache_dtype=fp8")
    (('block_size', 64), ('kv_cache_dtype', 'fp8'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as kv_cache_dtype=fp8")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def folder_of_config(path: str) -> Path:
    """The folder that an engine takes for a model: of a ``config.json``, or the one that holds it."""
    folder = Path(path)
    return folder.parent if folder.is_file() else folder


def say(text: str) -> None:
    """A line for the user."""
    print(f"precast: {text}", flush=True)


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """One step of an enumeration. If it fails, its kernels are not enumerated, and the reason is printed once.

    >>> with step("the router's kernels"):  # doctest: +ELLIPSIS
    ...     raise ValueError("no layers")
    precast: not enumerated: the router's kernels (ValueError: no layers, at <...>:2)
    """
    try:
        yield
    except Exception as error:
        not_enumerated(what, error)


_FAILED: dict[str, None] = {}
_INNER = ("torch", "precast.attach.libraries", "precast.kernels.adapters.scripts.meta_tensors")


def not_enumerated(what: str, error: Exception) -> None:
    """Print that a step failed, unless it has failed before."""
    if what in _FAILED:
        return
    _FAILED[what] = None
    lines = str(error).strip().splitlines()
    text = lines[0][:300] if lines else "no message"
    # Most errors of tensors without memory are raised in torch or in precast: the engine's own line says more.
    inner = tuple(f"{Path(str(sys.modules[name].__file__)).parent}/" for name in _INNER if name in sys.modules)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(inner)]
    line = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    say(f"not enumerated: {what} ({type(error).__name__}: {text}{line})")


def operator_failed(name: str, error: Exception) -> None:
    """Note that an operator failed. One that needs a native module, which is not loaded here, requests no kernel."""
    if not isinstance(error, NativeOperatorAbsent):
        not_enumerated(name, error)


def requested() -> int:
    """How many keys this process has recorded so far."""
    attachment = attached()
    return len(attachment.recorder.recorded) if attachment else 0


def finish() -> None:
    """End the program: with status 1 if a step failed."""
    if _FAILED:
        raise SystemExit(1)


def meeting_place() -> str:
    """Where processes of a group would meet; this one is alone."""
    return f"file://{tempfile.mkdtemp(prefix='precast-')}/meet"

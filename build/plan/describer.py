"""Descriptions: what kernels say of themselves, asked of a child process.

Whoever plans never imports a kernel's module: that would start the DSL, or run someone's code, in the process that has
to stay clean. The child imports them, answers as JSON over a pipe of its own, and may print, hang or die.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from precast.build.errors import DescribeError
from precast.build.plan.manifest import Asked
from precast.loader.errors import FormatError
from precast.loader.format import fields
from precast.loader.format.config import Key, to_json
from precast.loader.format.index import parse_key
from precast.loader.format.patterns import OP_NAME
from precast.loader.format.target import Target, TargetPattern

if TYPE_CHECKING:
    from precast.build.plan.plan import Variant

ANSWER_LIMIT = 256 << 20
TIME_LIMIT = 300.0
_TAIL = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is known of a kernel without compiling it. ``declared`` is False for a plain function, whose manifest says
    which keys are tuned; ``judges`` says that it has a ``supports``."""

    op: str
    source: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    doc: str = ""
    declared: bool = False
    judges: bool = False

    @classmethod
    def parse(cls, value: object) -> Description:
        """Read what the child says."""
        data = fields.as_object(value)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            source=fields.get(data, "source", str),
            keys=fields.items(data, "keys", parse_key, most=256),
            targets=fields.items(data, "targets", lambda v: str(TargetPattern.parse(fields.text(v))), most=256),
            outputs=fields.items(data, "outputs", fields.text, most=256),
            doc=fields.get(data, "doc", str),
            declared=fields.get(data, "declared", bool),
            judges=fields.get(data, "judges", bool),
        )


@dataclass(frozen=True, slots=True)
class Undescribed:
    """Why a kernel could not be described, ending in what to do."""

    reason: str


class Describer:
    """The child process, ready to answer. Use ``describing`` to have one that always ends."""

    def __init__(self, process: subprocess.Popen[bytes], answers: int, printed: IO[bytes], limit: float) -> None:
        self._process = process
        self._answers = answers
        self._printed = printed
        self._limit = limit

    def describe(self, asked: Sequence[Asked]) -> dict[Asked, Description | Undescribed]:
        """What each kernel says of itself; a module that cannot be imported costs its own kernels alone."""
        wanted = list(dict.fromkeys(asked))
        rows = self._ask({"describe": [{"op": op, "source": source} for op, source in wanted]}, len(wanted))
        return dict(zip(wanted, map(_described, rows), strict=True))

    def judge(self, variants: Sequence[Variant]) -> tuple[str | None, ...]:
        """For each variant, the reason why its kernel refuses it, or None."""
        rows = [
            {
                "op": v.op,
                "source": v.source,
                "config": {name: to_json(value) for name, value in v.config.items()},
                "target": str(v.target),
            }
            for v in variants
        ]
        return tuple(_reason(row) for row in self._ask({"judge": rows}, len(rows)))

    def _ask(self, request: dict[str, Any], expected: int) -> list[Any]:
        if not expected:
            return []
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._line()
        except BrokenPipeError:
            line = b""
        if not line:
            raise DescribeError(self._death())
        try:
            rows = fields.read_json(line, limit=ANSWER_LIMIT)
            if not isinstance(rows, list) or len(rows) != expected:
                raise FormatError(f"expected {expected} answers")
        except FormatError as error:
            raise DescribeError(
                f"the process that reads kernels answered with something else ({error}): report this"
            ) from None
        return rows

    def _line(self) -> bytes:
        """One line from the pipe, or nothing where the child has ended; the time limit is on the whole answer."""
        deadline = time.monotonic() + self._limit
        chunks: list[bytes] = []
        size = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while not (chunks and chunks[-1].endswith(b"\n")):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise DescribeError(
                        f"importing the kernels' modules took more than {self._limit:g} s{self._tail()}; "
                        "look for work at import time in them, or name fewer"
                    )
                chunk = os.read(self._answers, 1 << 20)
                size += len(chunk)
                if not chunk or size > ANSWER_LIMIT:
                    return b""
                chunks.append(chunk)
        return b"".join(chunks)

    def _death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is not None and code < 0:
            how = (
                f"was ended by {signal.Signals(-code).name}"
                if -code in set(signal.Signals)
                else f"was ended by signal {-code}"
            )
        else:
            how = f"ended with status {code}"
        return (
            f"the process that imports the kernels' modules {how} before it answered{self._tail()}; "
            "import them with Python to see why, one 'compile:' at a time"
        )

    def _tail(self) -> str:
        self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, self._printed.tell() - _TAIL))
        text = self._printed.read(_TAIL).decode("utf-8", "replace").strip()
        return f"; it last printed:\n{text}\n" if text else ""


@contextlib.contextmanager
def describing(search: Iterable[Path], target: Target, *, limit: float = TIME_LIMIT) -> Iterator[Describer]:
    """A child process that imports from ``search`` as if it compiled for ``target``; it is gone when the block ends."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "precast.build.child.describer_main",
                    str(write),
                    str(target),
                    *map(str, search),
                ],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                pass_fds=(write,),
                env=_environment(target),
                start_new_session=True,  # so that what a module starts ends with it
            )
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        try:
            yield Describer(process, read, printed, limit)
        finally:
            _end(process)
            os.close(read)


def _environment(target: Target) -> dict[str, str]:
    return {
        **os.environ,
        "CUTE_DSL_ARCH": str(target),  # read once, when the DSL starts
        "CUDA_VISIBLE_DEVICES": "-1",  # a description must not depend on the machine's GPU
        "PYTHONSAFEPATH": "1",  # the current folder is no place to import from
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.wait()


def _described(row: object) -> Description | Undescribed:
    try:
        data = fields.as_object(row)
        return Undescribed(fields.get(data, "error", str)) if "error" in data else Description.parse(data)
    except FormatError as error:
        return Undescribed(f"its declaration is not one that precast knows ({error}): correct it")


def _reason(row: object) -> str | None:
    if row is None or isinstance(row, str):
        return row
    raise DescribeError("the process that reads kernels gave a reason that is not text: report this")

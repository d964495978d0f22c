"""The recorder: an object linked against ``recorder.c``, called in a child process. Its tensors are addresses only."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import LinkError, PlanError
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.link import elf
from precast.build.link.linker import FLAGS, host_libraries
from precast.build.link.runtime import COMPILE, SHARED, run
from precast.build.link.toolchain import Toolchain
from precast.loader.contract.abi.dlpack import dtype_code
from precast.loader.contract.format.program.call_leaves import DrawnTensor

SOURCE = Path(__file__).with_name("recorder.c")
_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """A launch that host code made. ``written`` marks the bytes of its parameters that the host code has set."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    overlap: bool
    parameters: tuple[bytes, ...]
    written: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one call did: its launches, or the type and the text of the error that it raised."""

    launches: tuple[RecordedLaunch, ...] = ()
    error: tuple[str, str] | None = None


class Recorder:
    """Calls one object. Use it in a ``with`` block. ``parameters`` has each kernel of its device code with the sizes
    of its parameters. Host code that does more than launch, such as print, is refused if it ``only_launches``."""

    def __init__(
        self, toolchain: Toolchain, obj: bytes, symbol: str, cubin: bytes, *, only_launches: bool = True
    ) -> None:
        self.symbol, self._only_launches = symbol, only_launches
        self.parameters = {
            kernel: tuple(size for _, size in elf.kernel_parameters(cubin, kernel)) for kernel in elf.kernels(cubin)
        }
        self._toolchain, self._obj = toolchain, obj
        self._cleanup = ExitStack()

    def __enter__(self) -> Recorder:
        with self._cleanup:
            folder = self._cleanup.enter_context(temporary_folder())
            settings = self._linked(folder)
            environment = child_environment(os.environ)
            self._child = self._cleanup.enter_context(
                ChildProcess(
                    "precast.build.child.rehearser_main", name="rehearsal", settings=settings, environment=environment
                )
            )
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.__exit__(kind, error, trace)

    def ask(self, calls: Iterable[Sequence[Any]]) -> list[Recorded]:
        """What each call would launch."""
        self._child.send(Message({"calls": [[_for_child(value) for value in call] for call in calls]}))
        try:
            reply = self._child.receive(_SECONDS).header
        except ChildLost as lost:
            raise PlanError(f"{self.symbol}: {lost}\n{lost.output.strip()[-2000:]}\nReport this") from None
        if "error" in reply:
            raise PlanError(f"{self.symbol}: its rehearsal failed: {reply['error']}; report this\n{reply['traceback']}")
        return [self._recorded(answer) for answer in reply["answers"]]

    def _recorded(self, answer: Mapping[str, Any]) -> Recorded:
        if "error" in answer:
            kind, text = answer["error"]
            return Recorded(error=(kind, text))
        launches = answer["launches"]
        if answer["count"] != len(launches):
            raise PlanError(f"{self.symbol} makes {answer['count']} launches in a call: leave 'cubin' out of emit")
        for launch in launches:
            if not launch["kernel"]:
                raise PlanError(f"{self.symbol} launches a kernel that its device code lacks; report this")
            if launch["unknown"]:
                raise PlanError(
                    f"{self.symbol} launches with the attribute {launch['unknown']}, which a host program cannot"
                    " say: leave 'cubin' out of emit"
                )
        return Recorded(
            tuple(
                RecordedLaunch(
                    kernel=launch["kernel"],
                    grid=tuple(launch["grid"]),
                    block=tuple(launch["block"]),
                    cluster=tuple(launch["cluster"]),
                    shared=launch["shared"],
                    overlap=bool(launch["overlap"]),
                    parameters=self._split(launch["kernel"], launch["parameters"]),
                    written=self._split(launch["kernel"], launch["set"]),
                )
                for launch in launches
            )
        )

    def _split(self, kernel: str, digits: str) -> tuple[bytes, ...]:
        """Each parameter's bytes."""
        data = iter(bytes.fromhex(digits))
        return tuple(bytes(itertools.islice(data, size)) for size in self.parameters[kernel])

    def _linked(self, folder: Path) -> dict[str, Any]:
        tools, ffi = self._toolchain, self._toolchain.ffi / "libtvm_ffi.so"
        (folder / "recorder.so").write_bytes(recorder_library(tools.gcc, SOURCE))
        (folder / "variant.o").write_bytes(self._obj)
        defined = ["--no-undefined"] if self._only_launches else []  # else the process may have what is missing
        command: list[str | Path] = [tools.ld, *FLAGS, *defined, "-o", "variant.so", "variant.o"]
        try:
            run([*command, folder / "recorder.so", ffi, *host_libraries(tools)], folder, self.symbol)
        except LinkError as error:
            raise PlanError(
                f"{self.symbol}: its host code does more than launch, so no host program can replace it: leave 'cubin'"
                f" out of emit\n{error}"
            ) from None
        libraries = {"ffi": str(ffi), "recorder": str(folder / "recorder.so"), "variant": str(folder / "variant.so")}
        kernels = {kernel: list(sizes) for kernel, sizes in self.parameters.items()}
        return {**libraries, "symbol": self.symbol, "kernels": kernels}


@functools.cache
def recorder_library(gcc: str | Path, source: Path, soname: str = "recorder.so") -> bytes:
    """The recording runtime under a name, compiled once a process for each.

    With the name of a cache's runtime library, it takes the place of that: the libraries of the cache need only be
    opened after it.
    """
    with temporary_folder() as folder:
        output = ["-o", "recorder.so", f"-Wl,-soname,{soname}"]
        run([gcc, *COMPILE, *SHARED, source, *output], folder, "recorder.c")
        return (folder / "recorder.so").read_bytes()


def _for_child(value: Any) -> Any:
    if not isinstance(value, DrawnTensor):
        return value
    plain = {"data": value.data, "shape": value.shape, "strides": value.strides, "device": value.device}
    return {**plain, "dtype": dtype_code(value.dtype)}

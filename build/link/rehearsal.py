"""Rehearsal: compare a launch plan with what the object's own host code launches, on a machine without a GPU.

The object is linked against ``rehearsal.c``, a runtime library that records launches instead of making them. Its entry
is then called, in a child process, with tensors of many sizes that are addresses only. For each call, the plan must
give the same grid, block, cluster, shared memory and parameters.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
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
from precast.loader.errors import FormatError, LaunchError
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.signature import Argument, Dim, Signature
from precast.loader.launch.arguments import DEVICES, View, bind, limits, pack, packable

SOURCE = Path(__file__).with_name("rehearsal.c")
CALLS = 256
_SECONDS = 120
_DTYPES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_LARGEST = 1 << 34  # the largest extent of a shape, even where its symbol has 64 bits


def rehearse(
    toolchain: Toolchain,
    obj: bytes,
    symbol: str,
    signature: Signature,
    launch_plan: LaunchPlan,
    cubins: Sequence[bytes],
) -> None:
    """Raise a PlanError if the launch plan differs from what the object's host code does."""
    try:
        launch_plan.check(signature)
        packable(signature, launch_plan.parameters)
    except FormatError as error:
        raise PlanError(f"{symbol}: its launch plan is wrong: {error}; correct launch= in @kernel") from None
    if len(cubins) != 1 or len(elf.kernels(cubins[0])) != 1:
        raise PlanError(f"{symbol} has more than one kernel: a plan launches one; leave 'cubin' out of emit")
    kernel = elf.kernels(cubins[0])[0]
    draw = random.Random(symbol)
    calls = [_arguments(signature, draw) for _ in range(CALLS)]
    packed = [_planned(symbol, signature, launch_plan, call) for call in calls]
    lengths = [len(part) for part in next(p for p in packed if p is not None)[1]]
    _check_parameters(symbol, lengths, elf.kernel_parameters(cubins[0], kernel))
    answers = _ask(toolchain, obj, symbol, lengths, [[_for_child(value) for value in call] for call in calls])
    for call, planned, answer in zip(calls, packed, answers, strict=True):
        if planned is not None:
            _compare(symbol, kernel, call, planned, answer)


def _planned(symbol: str, signature: Signature, launch_plan: LaunchPlan, call: list[Any]) -> tuple[Any, ...] | None:
    """The launch and the parameters that the plan gives for a call; None for one that no device could launch."""
    bound = bind(symbol, signature, call)
    try:
        return launch_plan.launch(bound.sizes), pack(signature, launch_plan.parameters, bound)
    except LaunchError:
        return None


def _compare(symbol: str, kernel: str, call: list[Any], planned: tuple[Any, ...], answer: dict[str, Any]) -> None:
    launch, parameters = planned
    if "error" in answer:
        raise PlanError(f"{symbol}: the object refuses {call}: {': '.join(answer['error'])}; report this")
    facts = {
        "launches": (1, answer["launches"]),
        "kernel": (kernel, answer["kernel"]),
        "grid": (list(launch.grid), answer["grid"]),
        "block": (list(launch.block), answer["block"]),
        "cluster": (list(launch.cluster), answer["cluster"]),
        "shared": (launch.shared, answer["shared"]),
        "attribute": (0, answer["unknown"]),
        "parameters": ([part.hex() for part in parameters], answer["parameters"]),
    }
    wrong = [f"{name}: the plan has {ours}, the object {its}" for name, (ours, its) in facts.items() if ours != its]
    if wrong:
        raise PlanError(f"{symbol} for {call}: {'; '.join(wrong)}. Correct launch= in @kernel, or leave 'cubin' out")


def _check_parameters(symbol: str, lengths: list[int], found: Sequence[tuple[int, int]]) -> None:
    """The device code lists its parameters: as many as the plan has, and each as long, except for padding."""
    sizes = [size for _, size in found]
    if len(sizes) != len(lengths) or any(not 0 <= size - n < 8 for size, n in zip(sizes, lengths, strict=True)):
        raise PlanError(
            f"{symbol}: the plan packs parameters of {lengths} bytes, the device code takes {sizes}:"
            " correct the parameters of launch= in @kernel"
        )


def _ask(toolchain: Toolchain, obj: bytes, symbol: str, sizes: list[int], calls: list[Any]) -> list[dict[str, Any]]:
    with temporary_folder() as folder:
        place = Path(folder)
        ffi = toolchain.ffi / "libtvm_ffi.so"
        run(
            [toolchain.gcc, *COMPILE, *SHARED, SOURCE, "-o", "recorder.so", "-Wl,-soname,recorder.so"],
            folder,
            "rehearsal.c",
        )
        (place / "variant.o").write_bytes(obj)
        command: list[str | Path] = [toolchain.ld, *FLAGS, "--no-undefined", "-o", "variant.so", "variant.o"]
        try:
            run([*command, place / "recorder.so", ffi, *host_libraries(toolchain)], folder, symbol)
        except LinkError as error:
            raise PlanError(
                f"{symbol}: its host code does more than launch, so no plan can replace it: leave 'cubin' out of emit"
                f"\n{error}"
            ) from None
        libraries = {"ffi": str(ffi), "recorder": str(place / "recorder.so"), "variant": str(place / "variant.so")}
        request = Message({**libraries, "symbol": symbol, "sizes": sizes, "calls": calls})
        environment = child_environment(os.environ)
        try:
            with ChildProcess("rehearser_main", name="rehearsal", settings={}, environment=environment) as child:
                child.send(request)
                reply = child.receive(_SECONDS).header
        except ChildLost as lost:
            raise PlanError(f"{symbol}: {lost}\n{lost.output.strip()[-2000:]}\nReport this") from None
    if "error" in reply:
        raise PlanError(f"{symbol}: its rehearsal failed: {reply['error']}; report this\n{reply['traceback']}")
    launches: list[dict[str, Any]] = reply["launches"]
    return launches


def _arguments(signature: Signature, draw: random.Random) -> list[Any]:
    """Arguments that the signature allows, whose symbols take small, round, odd and large values."""
    sizes = {name: _size(symbol.dtype, symbol.divisibility, draw) for name, symbol in signature.symbols.items()}
    return [_argument(argument, place, sizes, draw) for place, argument in enumerate(signature.passed)]


def _size(dtype: str, divisibility: int, draw: random.Random) -> int:
    most = min(limits(dtype)[1], _LARGEST)
    value = draw.choice(
        [draw.randrange(4), draw.randrange(300), 1 << draw.randrange(most.bit_length()), draw.randrange(most)]
    ) + draw.randrange(-1, 2)
    return min(max(value, 0), most) // divisibility * divisibility


def _argument(argument: Argument, place: int, sizes: dict[str, int], draw: random.Random) -> Any:
    if argument.kind == "tensor":
        step = max(argument.alignment, 1)
        return View(
            data=(place + 1 << 40) + draw.randrange(1 << 20) * step,
            shape=tuple(_extent(d, sizes) for d in argument.shape),
            strides=tuple(_extent(d, sizes) for d in argument.strides or ()),
            dtype=argument.dtype,
            device=(DEVICES[argument.device], 0),
        )
    if argument.dtype.startswith(("int", "uint")):
        least, most = limits(argument.dtype)
        return (
            draw.choice([0, 1, least, most, draw.randrange(least, most)])
            // argument.divisibility
            * argument.divisibility
        )
    return draw.choice([True, False]) if argument.dtype == "bool" else draw.choice([0.0, -0.5, draw.uniform(-9, 9)])


def _extent(dim: Dim, sizes: dict[str, int]) -> int:
    return sizes[dim] if isinstance(dim, str) else dim


def _for_child(value: Any) -> Any:
    if not isinstance(value, View):
        return value
    kind = value.dtype.rstrip("0123456789")
    dtype = [_DTYPES[kind], int(value.dtype.removeprefix(kind) or 8), 1]
    return {"data": value.data, "shape": value.shape, "strides": value.strides, "device": value.device, "dtype": dtype}

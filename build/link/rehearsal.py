"""Rehearsal: a launch plan is held against what the object's own host code launches, on a machine without a GPU.

The object is linked against a stand-in for the runtime library that keeps what it is asked to launch. Its entry is then
called, in a process of its own, with tensors of many sizes that are addresses only; for each, the plan must give the
same grid, block, cluster, shared memory and parameters.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precast.build.errors import LinkError, PlanError
from precast.build.link import elf
from precast.build.link.linker import FLAGS
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
_LARGEST = 1 << 34  # as large as a shape is made where 64 bits are open


def rehearse(
    toolchain: Toolchain, obj: bytes, symbol: str, signature: Signature, plan: LaunchPlan, cubins: Sequence[bytes]
) -> None:
    """Raise a PlanError where the plan is not what the object's host code does."""
    try:
        plan.check(signature)
        packable(signature, plan.parameters)
    except FormatError as error:
        raise PlanError(f"{symbol}: its launch plan is wrong: {error}; correct launch= in @kernel") from None
    if len(cubins) != 1 or len(elf.kernels(cubins[0])) != 1:
        raise PlanError(f"{symbol} has more than one kernel: a plan launches one; leave 'cubin' out of emit")
    kernel = elf.kernels(cubins[0])[0]
    draw = random.Random(symbol)
    calls = [_arguments(signature, draw) for _ in range(CALLS)]
    packed = [_planned(symbol, signature, plan, call) for call in calls]
    lengths = [len(part) for part in next(p for p in packed if p is not None)[1]]
    _check_parameters(symbol, lengths, elf.kernel_parameters(cubins[0], kernel))
    answers = _ask(toolchain, obj, symbol, lengths, [[_for_child(value) for value in call] for call in calls])
    for call, planned, answer in zip(calls, packed, answers, strict=True):
        if planned is not None:
            _compare(symbol, kernel, call, planned, answer)


def _planned(symbol: str, signature: Signature, plan: LaunchPlan, call: list[Any]) -> tuple[Any, ...] | None:
    """What the plan makes of a call; None where no device could launch it, which the loader refuses."""
    bound = bind(symbol, signature, call)
    try:
        return plan.launch(bound.sizes), pack(signature, plan.parameters, bound)
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
    """The device code's own account of its parameters: as many as the plan has, each as long, but for its padding."""
    sizes = [size for _, size in found]
    if len(sizes) != len(lengths) or any(not 0 <= size - n < 8 for size, n in zip(sizes, lengths, strict=True)):
        raise PlanError(
            f"{symbol}: the plan packs parameters of {lengths} bytes, the device code takes {sizes}:"
            " correct the parameters of launch= in @kernel"
        )


def _ask(toolchain: Toolchain, obj: bytes, symbol: str, sizes: list[int], calls: list[Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        place = Path(folder)
        ffi = toolchain.ffi / "libtvm_ffi.so"
        run(
            [toolchain.gcc, *COMPILE, *SHARED, SOURCE, "-o", "double.so", "-Wl,-soname,double.so"],
            folder,
            "rehearsal.c",
        )
        (place / "variant.o").write_bytes(obj)
        command: list[str | Path] = [toolchain.ld, *FLAGS, "--no-undefined", "-o", "variant.so", "variant.o"]
        try:
            run([*command, place / "double.so", ffi], folder, symbol)
        except LinkError as error:
            raise PlanError(
                f"{symbol}: its host code does more than launch, so no plan can stand for it: leave 'cubin' out of emit"
                f"\n{error}"
            ) from None
        libraries = {"ffi": str(ffi), "double": str(place / "double.so"), "variant": str(place / "variant.so")}
        request = json.dumps({**libraries, "symbol": symbol, "sizes": sizes, "calls": calls})
        done = subprocess.run(
            [sys.executable, "-m", "precast.build.child.rehearser_main"],
            input=request, capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    if done.returncode:
        raise PlanError(
            f"{symbol}: its rehearsal ended with {done.returncode}: {done.stderr.strip()[-2000:]}; report this"
        )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


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

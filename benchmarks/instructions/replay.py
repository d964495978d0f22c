"""Runs the measured kernels on the emulator, on the inputs that the GPU had.

python -m instructions.replay [FILE]       # which cases differ from the stored results, and how
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precast.emulator import EmulationFault, Emulator, Launch, Memory, Unsupported

from . import functions, products
from .case import THREADS, Case, cases
from .operands import bits
from .stored import CHUNK, KEPT, Arrays, arguments, checksums, load, product_checksums, without_nans
from .tiles import tiles

STORED = Path(__file__).parent.parent / "results" / "nvidia-h200" / "instructions.npz.xz"
Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A case: how many of its results (or parts of them) differ, or why it is not emulated."""

    name: str
    different: int = 0
    payloads: int = 0  # NaNs on both sides, of other bits
    refused: str = ""
    example: str = ""


def run(emulator: Emulator, kernel: str, grid: int, block: int, parameters: list[Array | int]) -> None:
    """Launch a kernel whose parameters all have 64 bits: arrays by their address."""
    memory = tuple(value if isinstance(value, int) else Memory.of(value) for value in parameters)
    emulator.run([Launch(kernel=kernel, grid=(grid, 1, 1), block=(block, 1, 1), parameters=memory)]).checked()


def scalar(stored: Arrays) -> Iterator[Replayed]:
    """Every scalar case, on the first block of its operands."""
    for case in cases():
        try:
            yield _scalar(case, stored[f"scalar {case.name}"])
        except (Unsupported, EmulationFault) as error:
            yield Replayed(case.name, refused=str(error))


def _scalar(case: Case, expected: Array) -> Replayed:
    arrays = [np.ascontiguousarray(array[:THREADS]) for array in case.inputs()]
    out = np.zeros(THREADS, np.uint64)
    run(Emulator([case.ptx()]), "probe", 1, THREADS, [*arrays, out])
    result = out[:KEPT].astype(f"<u{bits(case.result) // 8}")
    unequal = result != expected
    nans = unequal & (without_nans(case.result, result) == without_nans(case.result, expected))
    places = np.flatnonzero(unequal & ~nans)
    if not len(places):
        return Replayed(case.name, payloads=int(nans.sum()))
    first = places[0]
    given = ", ".join(hex(a[first]) for a in arrays[: len(case.operands)])
    example = f"{given}: {expected[first]:#x} measured, {result[first]:#x} emulated"
    return Replayed(case.name, len(places), int(nans.sum()), example=example)


def tensor_products(stored: Arrays) -> Iterator[Replayed]:
    """Every product of tensor cores, tile by tile."""
    emulator = Emulator([products.ptx()])
    for product in products.products():
        expected = stored[f"product {product.name}"]
        a, b, c = tiles(product)
        count = len(c)
        if product.unit == "mma":
            given = [products.fragments(product, x, m) for x, m in zip("abc", (a, b, c), strict=True)]
            threads = 32
        else:
            small = products.Product("mma", product.k, product.a, product.b, product.c)
            registers = products.fragments(small, "c", c.reshape(-1, 16, 8)).reshape(count, 4, -1, 32)
            shared = [products.core_matrices(a, product.a), products.core_matrices(b.transpose(0, 2, 1), product.b)]
            given, threads = [*shared, registers], 128  # type: ignore[list-item]
        out = np.zeros_like(given[2])
        try:
            run(emulator, products.entry(product), count, threads, [*given, out])
        except (Unsupported, EmulationFault) as error:
            yield Replayed(product.name, refused=str(error))
            continue
        yield Replayed(product.name, int((product_checksums(product, out) != expected).sum()))


def approximations(stored: Arrays) -> Iterator[Replayed]:
    """Every approximate function, on samples of all exponents and parts of the sweeps."""
    emulator = Emulator([functions.ptx()])
    for name, opcode, words in arguments():
        expected, out = stored[name], np.zeros_like(words)
        run(emulator, functions.entry(opcode), len(words) // 128, 128, [0, 0, np.ascontiguousarray(words), out])
        yield Replayed(name, int((checksums(out, len(words) // CHUNK) != expected).sum()))


def main() -> int:
    """Report every difference."""
    stored = load(Path(sys.argv[1]) if len(sys.argv) > 1 else STORED)
    wrong = 0
    for part in (scalar, tensor_products, approximations):
        results = list(part(stored))
        equal = sum(not r.different and not r.refused and not r.payloads for r in results)
        refused = sum(bool(r.refused) for r in results)
        nans = sum(bool(r.payloads) and not r.different for r in results)
        counts = (
            f"{equal} of {len(results)} equal in every bit, {nans} but for the bits of NaNs, {refused} not emulated"
        )
        print(f"{part.__name__}: {counts}")
        for result in results:
            if result.different or result.refused:
                print(f"  {result.name}: {result.refused or f'{result.different} differ; {result.example}'}")
        wrong += len(results) - equal
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())

"""Measures every instruction on a GPU: `python -m instructions.record MODULES OUT`.

MODULES holds scalar.cubin, functions.cubin and products.cubin, made by `python -m instructions.modules MODULES`.
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from . import functions, products
from .case import COUNT, THREADS, cases
from .device import Device, to_device, to_host
from .operands import bits
from .tiles import tiles

FILE_LIMIT = 13 << 20
FILES = 4


def scalars(device: Device, modules: Path) -> dict[str, NDArray[np.generic]]:
    """Results of all scalar cases, in the width of the result."""
    module = device.module(modules / "scalar.cubin")
    out: dict[str, NDArray[np.generic]] = {}
    for number, case in enumerate(cases()):
        arrays = [to_device(array) for array in case.inputs()]
        result = torch.zeros(COUNT * 8, dtype=torch.uint8, device="cuda")
        device.launch(module, f"probe_{number}", COUNT // THREADS, THREADS, [*arrays, result])
        device.synchronize(case.name)
        out[case.name] = to_host(result, "<u8").astype(f"<u{bits(case.result) // 8}")
    return out


def tensor_products(device: Device, modules: Path) -> dict[str, NDArray[np.generic]]:
    """Results of all products, as registers."""
    module = device.module(modules / "products.cubin")
    out: dict[str, NDArray[np.generic]] = {}
    for product in products.products():
        a, b, c = tiles(product)
        if product.unit == "mma":
            given = [products.fragments(product, x, m) for x, m in zip("abc", (a, b, c), strict=True)]
            threads = 32
        else:
            small = products.Product("mma", product.k, product.a, product.b, product.c)
            registers = products.fragments(small, "c", c.reshape(-1, 16, 8)).reshape(len(c), 4, -1, 32)
            shared = [products.core_matrices(a, product.a), products.core_matrices(b.transpose(0, 2, 1), product.b)]
            given, threads = [*shared, registers], 128  # type: ignore[list-item]
        arrays = [to_device(array) for array in given]
        result = torch.zeros_like(arrays[2])
        device.launch(module, products.entry(product), len(c), threads, [*arrays, result])
        device.synchronize(product.name)
        out[product.name] = to_host(result, "<u4").reshape(given[2].shape)
    return out


def packed(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """A sweep's results: the first, then differences in the narrowest type, compressed."""
    steps = np.diff(array.view("<i4").astype(np.int64))
    kind = next(
        k
        for k in ("i1", "<i2", "<i4", "<i8")
        if len(steps) == 0 or (steps.min() >= np.iinfo(k).min and steps.max() <= np.iinfo(k).max)
    )
    head = array[:1].tobytes() + bytes([np.dtype(kind).itemsize])
    return np.frombuffer(head + lzma.compress(steps.astype(kind).tobytes(), preset=2), np.uint8)


def unpacked(blob: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The inverse of `packed`."""
    raw = blob.tobytes()
    steps = np.frombuffer(lzma.decompress(raw[5:]), f"<i{raw[4]}").astype(np.int64)
    first = np.frombuffer(raw[:4], "<i4").astype(np.int64)
    return np.concatenate([first, first + np.cumsum(steps)]).astype("<i4").view("<u4")


def sweeps(device: Device, modules: Path, pool: ThreadPoolExecutor) -> dict[str, Future[NDArray[np.uint8]]]:
    """Every sweep, packed by threads."""
    module = device.module(modules / "functions.cubin")
    out: dict[str, Future[NDArray[np.uint8]]] = {}
    for sweep in functions.sweeps():
        result = torch.zeros(sweep.count * 4, dtype=torch.uint8, device="cuda")
        opcode = functions.FUNCTIONS.get(sweep.function, sweep.function)
        device.launch(module, functions.entry(opcode), sweep.count // 128, 128, [sweep.first, sweep.step, 0, result])
        device.synchronize(sweep.name)
        out[sweep.name] = pool.submit(packed, to_host(result, "<u4"))
    return out


def function_samples(device: Device, modules: Path) -> dict[str, NDArray[np.generic]]:
    """Every function at samples of all exponents."""
    module = device.module(modules / "functions.cubin")
    out: dict[str, NDArray[np.generic]] = {}
    for function, opcode in functions.FUNCTIONS.items():
        arguments = functions.samples(function).astype("<u4")
        result = torch.zeros(len(arguments) * 4, dtype=torch.uint8, device="cuda")
        device.launch(module, functions.entry(opcode), len(arguments) // 128, 128, [0, 0, to_device(arguments), result])
        device.synchronize(function)
        out[function] = to_host(result, "<u4")
    return out


def save(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """All arrays in one file: an npz, compressed as a whole."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name.replace("/", "_"): array for name, array in arrays.items()})
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=4))
    print(path.name, len(arrays), "arrays", path.stat().st_size >> 10, "KiB", flush=True)


def save_packed(folder: Path, blobs: dict[str, NDArray[np.uint8]]) -> None:
    """Packed sweeps in files below the limit; what does not fit is named and left out."""
    groups: list[dict[str, NDArray[np.generic]]] = [{} for _ in range(FILES)]
    sizes = [0] * FILES
    for name, blob in blobs.items():
        room = next((i for i in range(FILES) if sizes[i] + blob.nbytes < FILE_LIMIT), None)
        if room is None:
            print("no room for", name, blob.nbytes, flush=True)
            continue
        groups[room][name], sizes[room] = blob, sizes[room] + blob.nbytes
    for i, group in enumerate(groups):
        if group:
            np.savez(folder / f"sweeps{i}.npz", **group)
            print(f"sweeps{i}", len(group), sizes[i] >> 10, "KiB", flush=True)


def main() -> int:
    """Measures all and writes the files; a part that fails is named, and the others go on."""
    modules, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    start, failed = time.monotonic(), 0
    device = Device()
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "numpy": np.__version__}
    (out / "about.json").write_text(json.dumps(about) + "\n")
    with ThreadPoolExecutor(14) as pool:
        blobs = sweeps(device, modules, pool)
        print("sweeps launched", round(time.monotonic() - start, 1), "s", flush=True)
        for name, part in (("samples", function_samples), ("products", tensor_products), ("scalar", scalars)):
            try:
                save(out / f"{name}.npz.xz", part(device, modules))
            except RuntimeError as error:
                print(f"{name} failed: {error}", flush=True)
                failed = 1
            print(name, round(time.monotonic() - start, 1), "s", flush=True)
        save_packed(out, {name: blob.result() for name, blob in blobs.items()})
    print("all", round(time.monotonic() - start, 1), "s", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())

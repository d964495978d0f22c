# mypy: ignore-errors
"""Kernels of Triton: ``python triton_kernels.py FOLDER`` writes their PTX, and prints the shared memory of each.

No GPU is needed. ``triton_add.ptx`` and ``triton_softmax.ptx`` were written so.
"""

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # which has the path of this file

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def triton_softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, at < columns, float("-inf"))
    powers = tl.exp(values - tl.max(values))
    tl.store(out + row * columns + at, powers / tl.sum(powers), at < columns)


@triton.jit
def triton_gemm(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for begin in range(0, k, DEPTH):
        depth = begin + tl.arange(0, DEPTH)
        total = tl.dot(tl.load(a + row[:, None] * k + depth), tl.load(b + depth[:, None] * n + column), total)
    tl.store(c + row[:, None] * n + column, total.to(tl.float16))


VECTORS = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
ROWS = {"x": "*fp32", "out": "*fp32", "columns": "i32", "BLOCK": "constexpr"}
MATRICES = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("mnk", "i32")}
MATRICES |= dict.fromkeys(("ROWS", "COLUMNS", "DEPTH"), "constexpr")
ALIGNED = {(place,): [["tt.divisibility", 16]] for place in range(6)}
TILE = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 64}
KERNELS = {
    "triton_add": (triton_add, 90, VECTORS, {"BLOCK": 256}, None),
    "triton_softmax": (triton_softmax, 90, ROWS, {"BLOCK": 1024}, None),
    "gemm_80": (triton_gemm, 80, MATRICES, {**TILE, "DEPTH": 32}, ALIGNED),  # mma and cp.async
    "gemm_90": (triton_gemm, 90, MATRICES, TILE, ALIGNED),  # wgmma
    "gemm_100": (triton_gemm, 100, MATRICES, {**TILE, "ROWS": 128}, ALIGNED),  # tcgen05
}

if __name__ == "__main__":
    shared = {}
    for name, (function, architecture, signature, constants, attributes) in KERNELS.items():
        source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
        Path(sys.argv[1], f"{name}.ptx").write_text(compiled.asm["ptx"])
        shared[name] = compiled.metadata.shared
    print(json.dumps(shared))

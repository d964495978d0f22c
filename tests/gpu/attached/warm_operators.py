"""Products by CUTLASS operators, two operators each, on two streams, beside torch's: ``warm_flashinfer`` says how to
run it. The operators are a part of the DSL's package: they cannot be imported without it.
"""

from __future__ import annotations

import cutlass.operators as ops
import torch

from tests.gpu.attached.references import BF16, Pair, print_lines, random

OPERATORS = 2


def products(
    m: int, n: int = 1024, k: int = 512, *, b_major: str = "n", dtype: torch.dtype = BF16, out: torch.dtype = BF16
) -> list[Pair]:
    a = random(m, k, dtype=dtype)
    b = random(k, n, dtype=dtype) if b_major == "n" else random(n, k, dtype=dtype).t()
    pairs: list[Pair] = []
    for number in range(OPERATORS):
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            result = torch.empty(m, n, device="cuda", dtype=out)
            arguments = ops.GemmArguments(a, b, result, accumulator_type=torch.float32)
            operator = ops.get_operators(arguments, target_sm="90a", limit=OPERATORS)[number]
            torch.cuda.synchronize()
            operator.run(arguments, stream=stream.cuda_stream)
            torch.cuda.synchronize()
            pairs.append((result, a.float() @ b.float()))
    return pairs


def row_major() -> list[Pair]:
    return products(512)


def column_major() -> list[Pair]:
    return products(512, b_major="k")


def small() -> list[Pair]:
    return products(64)


def float16() -> list[Pair]:
    return products(512, dtype=torch.float16, out=torch.float16)


def float32_out() -> list[Pair]:
    return products(512, out=torch.float32)


def odd_rows() -> list[Pair]:
    return products(200)


CASES = tuple((case, 1e-2) for case in (row_major, column_major, small, float16, float32_out, odd_rows))

if __name__ == "__main__":
    print_lines(CASES)

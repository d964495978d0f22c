"""Cases of GEMMs: shapes, random inputs, references and tolerances to verify and bench with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.adapters.operators.arguments import FORMATS, Grouped, Scaled
from precast.kernels.adapters.operators.config import Design, Operands
from precast.kernels.adapters.operators.epilogue import Epilogue
from precast.kernels.authoring.declare import Cost, Problem, Tolerance
from precast.kernels.authoring.dtypes import bits, to_torch
from precast.loader.contract.format.config import Config

# Half a unit in the last place of a stored result, as a share of it; and the absolute rounding of a result near zero.
_ROUNDING = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3,
}  # fmt: skip
_SMALLEST = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-10, "float8_e5m2": 2.0**-17}
# Results are about one in size for every k. A sum of up to 8192 products in float32, cut after each step, is off by
# less than this; in float16 by as much as the other. Hopper shortens the sums of eight-bit products: torch's own, with
# its fast accumulation, are off by as much to the last bit (tests/gpu/test_float8.py), up to 0.04 at a k of 8192.
_ARITHMETIC = {"float64": 2.0**-40, "float32": 2.0**-11, "float16": 2.0**-3}
_EIGHT_BITS = 2.0**-4
_DEEPEST = {"float16": 2048}  # how large k may be with an accumulator that cannot hold more
_LARGE = 8192
_TERM = 4  # terms of an epilogue are about one in size, hardly any above eight: they are rounded as at four
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_FP4_SIZE = math.sqrt(sum(v * v for v in _FP4) / len(_FP4))


def problems(config: Config) -> Sequence[Problem]:
    """Sizes around every boundary, with padded rows and bases at the least alignment; a large square one last.
    Without any k the product is zero.

    >>> config = {"dtype": "bfloat16", "out_dtype": "bfloat16", "tile": (128, 128)}
    >>> problems(config)[0], problems(config)[-1]["k"]
    ({'m': 1, 'n': 8, 'k': 8, 'l': 1, 'padding': 0, 'offset': 0}, 8192)
    """
    operands = Operands.of(config)
    tile_m, tile_n = Design.of(config).tile
    deepest = _DEEPEST.get(operands.accumulator, _LARGE)
    shapes = [
        (1, 1, 1, 0, 0),
        (tile_m - 1, tile_n + 1, 65, 0, 1),
        (tile_m + 1, tile_n - 1, 200, 1, 0),
        (2 * tile_m + 3, 3 * tile_n + 5, 1000, 3, 1),
        (3, 5, 0, 1, 0),
        (17, 2 * tile_n, 3 * 128, 1, 1),
        (1031, 769, 515, 1, 1),
        (_LARGE, _LARGE, deepest, 0, 0),
    ]
    return [
        {
            "m": _up(m, operands.granularity("m")),
            "n": _up(n, operands.granularity("n")),
            "k": _up(k, operands.granularity("k")) if k else 0,
            "l": 1 if not operands.batched else 2 if m == _LARGE else 3,
            "padding": padding,
            "offset": offset,
        }
        for m, n, k, padding, offset in shapes
    ]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``a``, ``b``, what the epilogue reads, and ``out``."""
    operands = Operands.of(config)
    m, n, k = problem["m"], problem["n"], problem["k"]
    scale = max(k, 1) ** -0.25
    result = {
        "a": _random(operands, problem, (m, k), operands.a_major == "k", scale, device, seed),
        "b": _random(operands, problem, (k, n), operands.b_major == "n", scale, device, seed + 1),
    }
    out = _matrix(operands.out_dtype, problem, (m, n), operands.out_major == "n", operands.batched, device)
    for name in Epilogue.parse(operands.epilogue).inputs if operands.epilogue else ():
        if name in ("alpha", "beta"):
            result[name] = {"alpha": 0.75, "beta": -1.25}[name]
        elif name == "bias":
            result[name] = _normal((n,), device, seed + 2).to(to_torch(operands.out_dtype))
        else:
            result[name] = _matrix(
                operands.out_dtype, problem, (m, n), operands.out_major == "n", operands.batched, device
            )
            result[name].copy_(_normal(tuple(out.shape), device, seed + 3))
    return {**result, "out": out}


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product in float64, where integers up to 2**53 are exact too."""
    operands = Operands.of(config)
    product = inputs["a"].double() @ inputs["b"].double()
    if operands.epilogue:
        values = {n: v if isinstance(v, float) else v.double() for n, v in inputs.items() if n not in ("a", "b", "out")}
        product = Epilogue.parse(operands.epilogue).evaluate(product, values)
    return {"out": _stored(product, operands.out_dtype)}


def tolerance(config: Config) -> Tolerance:
    """The rounding of the result, the error of the sums, and the roundings in an epilogue.

    >>> tolerance({"dtype": "bfloat16", "out_dtype": "bfloat16"}).rtol
    0.00390625
    """
    dtype, out, accumulator = (str(config.get(n, "float32")) for n in ("dtype", "out_dtype", "accumulator"))
    if out not in _ROUNDING or accumulator == "int32":
        return Tolerance(rtol=_ROUNDING.get(out, 0.0), atol=0.0)
    arithmetic = _ARITHMETIC.get(accumulator, 0.0)
    if dtype not in _ROUNDING or dtype.startswith("float8"):
        arithmetic = max(arithmetic, _EIGHT_BITS)
    epilogue = str(config.get("epilogue", ""))
    inside = Epilogue.parse(epilogue).roundings(_TERM) * _ROUNDING[out] if epilogue else 0.0
    return Tolerance(rtol=_ROUNDING[out], atol=arithmetic + inside + _SMALLEST.get(out, 0.0))


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; each matrix once through memory.

    >>> cost({"dtype": "bfloat16", "out_dtype": "float32"}, {"m": 2, "n": 3, "k": 4, "l": 1})
    Cost(flops=48, bytes=64)
    """
    m, n, k, count = problem["m"], problem["n"], problem["k"], problem.get("l", 1)
    read, written = bits(str(config["dtype"])) * (m * k + k * n), bits(str(config["out_dtype"])) * m * n
    return Cost(2 * m * n * k * count, (read + written) * count // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own product, where it has one of these dtypes; the scales of its eight-bit one are 1."""
    import torch

    operands = Operands.of(config)
    a, b, out = inputs["a"], inputs["b"], inputs["out"]
    if operands.epilogue:
        return {}
    if operands.dtype == operands.out_dtype and operands.dtype in ("float64", "float32", "float16", "bfloat16"):
        multiply = torch.bmm if operands.batched else torch.mm
        return {f"torch.{multiply.__name__}": lambda: multiply(a, b, out=out)}
    majors = (operands.a_major, operands.b_major, operands.out_major)
    if not operands.dtype.startswith("float8") or operands.batched or majors != ("k", "k", "n"):
        return {}
    unit = torch.ones((), dtype=torch.float32, device=a.device)
    dtype = out.dtype
    return {
        "torch._scaled_mm": lambda: torch._scaled_mm(
            a, b, scale_a=unit, scale_b=unit, out_dtype=dtype, use_fast_accum=True
        )
    }


def scaled_problems(config: Config) -> Sequence[Problem]:
    """Rows in any number; k and the contiguous side of the result in sixteen bytes."""
    question = Scaled.of(config)
    dtype, _, _ = FORMATS[question.format]
    tile_m, tile_n = Design.of(config).tile
    sizes = [(1, 1, 1), (tile_m + 1, tile_n - 1, 500), (3 * tile_m - 1, 2 * tile_n + 9, 1024), (_LARGE, _LARGE, _LARGE)]
    wide = {question.out_major: 128 // bits(question.out_dtype)}
    return [
        {"m": _up(m, wide.get("m", 1)), "n": _up(n, wide.get("n", 1)), "k": _up(k, 128 // bits(dtype))}
        for m, n, k in sizes
    ]


def scaled_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Random values and scales, the scales in the order that the tensor cores read."""
    import torch

    dtype, scale_dtype, block = FORMATS[str(config["format"])]
    m, n, k = problem["m"], problem["n"], problem["k"]
    size = _FP4_SIZE if dtype.startswith("float4") else 1.0
    middle = -round(math.log2(size * k**0.25))
    generator = torch.Generator(device=device).manual_seed(seed)

    def values(rows: int) -> Any:
        if dtype.startswith("float4"):
            shape = (rows, k // 2)
            return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8, device=device)
        return torch.randn((rows, k), generator=generator, device=device).to(to_torch(dtype))

    def scales(rows: int) -> Any:
        count = _up(rows, 128) * _up(-(-k // block), 4)
        exponents = torch.randint(middle - 1, middle + 2, (count,), generator=generator, device=device)
        return torch.exp2(exponents.float()).to(to_torch(scale_dtype))

    out = _matrix(str(config["out_dtype"]), {}, (m, n), config["out_major"] == "n", False, device)
    return {"a": values(m), "b": values(n), "a_scale": scales(m), "b_scale": scales(n), "out": out}


def scaled_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product of the values times their scales, in float64."""
    _, _, block = FORMATS[str(config["format"])]
    a, b = (_real(inputs[name], inputs[f"{name}_scale"], block) for name in ("a", "b"))
    return {"out": _stored(a @ b.T, str(config["out_dtype"]))}


def scaled_cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; values, scales and the result once through memory."""
    dtype, _, block = FORMATS[str(config["format"])]
    m, n, k = problem["m"], problem["n"], problem["k"]
    read = (m + n) * k * bits(dtype) // 8 + (m + n) * k // block
    return Cost(2 * m * n * k, read + m * n * bits(str(config["out_dtype"])) // 8)


def grouped_problems(config: Config) -> Sequence[Problem]:
    """Groups of many sizes, empty ones among them."""
    question = Grouped.of(config)
    k, n = 128 // bits(question.dtype), 128 // bits(question.out_dtype)
    sizes = [(1, 1, n, k), (3, 300, 5 * n, 7 * k), (8, 1000, 1000, 520), (32, 8192, 4096, 4096)]
    return [
        {"groups": g, "m": m, "n": _up(nn, n), "k": _up(kk, k), "padding": 0, "offset": 0} for g, m, nn, kk in sizes
    ]


def grouped_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Rows assigned to groups at random; ``offsets`` holds where each group ends."""
    import torch

    operands = Operands(dtype=str(config["dtype"]), out_dtype=str(config["out_dtype"]))
    m, n, k, groups = problem["m"], problem["n"], problem["k"], problem["groups"]
    generator = torch.Generator(device="cpu").manual_seed(seed)
    ends = torch.randint(0, m + 1, (groups,), generator=generator).sort().values
    ends[-1] = m
    scale = k**-0.25
    b = (_normal((groups, n, k), device, seed + 1) * scale).to(to_torch(operands.dtype)).transpose(1, 2)
    return {
        "a": _random(operands, problem, (m, k), True, scale, device, seed),
        "b": b,
        "out": _matrix(operands.out_dtype, problem, (m, n), True, False, device),
        "offsets": ends.to(torch.int32).to(device),
    }


def grouped_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Each group's product in float64."""
    import torch

    ends = inputs["offsets"].tolist()
    starts = [0, *ends[:-1]]
    b = inputs["b"].double()
    parts = [inputs["a"][s:e].double() @ b[g] for g, (s, e) in enumerate(zip(starts, ends, strict=True))]
    return {"out": _stored(torch.cat(parts), str(config["out_dtype"]))}


def grouped_cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; every group's matrix is read."""
    m, n, k, groups = problem["m"], problem["n"], problem["k"], problem["groups"]
    read = bits(str(config["dtype"])) * (m * k + groups * k * n)
    return Cost(2 * m * n * k, (read + bits(str(config["out_dtype"])) * m * n) // 8)


def _up(value: int, step: int) -> int:
    return max(1, -(-value // step)) * step


def _normal(shape: tuple[int, ...], device: Any, seed: int) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator(device=device).manual_seed(seed), device=device)


def _random(
    operands: Operands, problem: Problem, shape: tuple[int, int], row_major: bool, scale: float, device: Any, seed: int
) -> Any:
    """Random values in a problem's layout; integers so small that the result fits its dtype."""
    import torch

    result = _matrix(operands.dtype, problem, shape, row_major, operands.batched, device)
    if operands.dtype not in ("int8", "uint8"):
        result.copy_(_normal(tuple(result.shape), device, seed) * scale)
        return result
    low, high = (-128, 128) if operands.dtype == "int8" else (0, 256)
    generator = torch.Generator(device=device).manual_seed(seed)
    values = torch.randint(low, high, tuple(result.shape), generator=generator, device=device)
    if operands.out_dtype in ("int8", "uint8"):  # few and small ones
        values = values.sign() * (values % 16 == 0)
    result.copy_(values)
    return result


def _matrix(dtype: str, problem: Problem, shape: tuple[int, int], row_major: bool, batched: bool, device: Any) -> Any:
    """Memory for a matrix: its rows (or columns) some 16 bytes apart, its base at 16 bytes and at no more."""
    import torch

    step = 128 // bits(dtype)
    rows, columns = shape if row_major else shape[::-1]
    pitch = _up(columns, step if problem.get("padding") else 1) + step * problem.get("padding", 0)
    if pitch % step and rows > 1:
        pitch = _up(pitch, step)
    count, offset = problem.get("l", 1) if batched else 1, step * problem.get("offset", 0)
    whole = torch.empty(count * rows * pitch + offset, dtype=to_torch(dtype), device=device)
    strides = (rows * pitch, pitch, 1) if batched else (pitch, 1)
    result = whole.as_strided((count, rows, columns) if batched else (rows, columns), strides, offset)
    return result if row_major else result.transpose(-1, -2)


def _stored(product: Any, dtype: str) -> Any:
    """A float64 result in a form to compare with the stored one: integers as integers, the rest unchanged."""
    import torch

    return product.round().to(torch.int64) if dtype in ("int8", "uint8", "int32") else product


def _real(values: Any, scales: Any, block: int) -> Any:
    """Packed or plain values times their scales, in float64."""
    import torch

    if values.dtype == torch.uint8:
        table = torch.tensor([*_FP4, *(-v for v in _FP4)], dtype=torch.float64, device=values.device)
        values = torch.stack((table[(values & 15).long()], table[(values >> 4).long()]), dim=-1).flatten(-2)
    rows, k = values.shape
    return values.double() * unswizzled(scales, rows, -(-k // block)).repeat_interleave(block, dim=1)[:, :k]


def unswizzled(scales: Any, rows: int, columns: int) -> Any:
    """Scales as a matrix in float64, from the order in which tensor cores read them: tiles of 128 rows by 4 columns, in
    which a row's number is read as (fourth, thirty-second) and stored the other way round."""
    tiles = scales.double().reshape(_up(rows, 128) // 128, _up(columns, 4) // 4, 32, 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(_up(rows, 128), _up(columns, 4))[:rows, :columns]

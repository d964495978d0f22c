"""Products of matrices by blocks of staged tiles: their common keys, and what verifies and times them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from precast.kernels import configs
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_torch
from precast.kernels.authoring.tile import Tile
from precast.kernels.own.matrix.staging import Staging
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

F = TypeVar("F", bound=Callable[..., Any])
_LARGE = 8192
_FAR = 1 << 15  # elements from row to row of the large problem, of which few are used
# Results are about one in size for every k, and so are most sums on the way to them. Each step of a sum is off by half
# a unit in the last place, up or down: together by about the square root of 8192 times as much, and by 16 of these at
# most. Tensor cores cut 16-bit products after every 8 of them, all towards zero: 1024 times a unit, of sums up to 2.
_SUMS = {"float64": 2.0**-42, "float32": 2.0**-13, "float16": 2.0**-12, "bfloat16": 2.0**-12}
_ULPS = {"float64": 0.0, "float32": 0.0, "float16": 0.75, "bfloat16": 0.75}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The keys of a config that say how a block works and which dimension of each matrix is contiguous.

    ``tile`` is the (m, n, k) that a block multiplies at a time, out of ``stages`` stages, with (m, n) ``warps``.
    ``residents`` blocks share a multiprocessor. Matrices are aligned to ``align`` bytes.
    """

    tile: Sequence[int]
    stages: int
    residents: int
    warps: Sequence[int] = ()
    align: int = 16
    a_major: str = "k"
    b_major: str = "n"
    out_major: str = "n"

    @classmethod
    def of(cls, config: Config) -> Design:
        """The design of a full config, which may hold more keys.

        >>> Design.of({"dtype": "float32", "tile": (128, 128, 16), "stages": 4, "residents": 2}).majors
        {'a': 'k', 'b': 'n', 'out': 'n'}
        """
        values: dict[str, Any] = {name: config[name] for name in cls.__slots__ if name in config}
        return cls(**values)

    @property
    def majors(self) -> dict[str, str]:
        """The contiguous dimension of each matrix, by its name."""
        return {"a": self.a_major, "b": self.b_major, "out": self.out_major}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A decorator that declares a product of matrices. ``staging`` is how a block of a design works, ``dtype`` what is
    multiplied and stored where the config does not say."""

    op: str
    staging: Callable[[Design], Staging]
    supports: Callable[[Config, Target], str | None]
    dtype: str = ""

    def __call__(self, function: F) -> F:
        """Declare the function that compiles the kernel."""
        declare = kernel(
            op=self.op,
            targets=["sm_80+"],
            supports=self.supports,
            problems=self.problems,
            large=large,
            inputs=self.inputs,
            outputs=["out"],
            reference=reference,
            tolerance=self.tolerance,
            cost=self.cost,
            tile=self.tile,
            peer=peer,
        )
        return declare(function)

    def dtypes(self, config: Config) -> tuple[str, str]:
        """The dtypes of the operands and of the result."""
        return str(config.get("dtype", self.dtype)), str(config.get("out_dtype", self.dtype))

    def problems(self, config: Config) -> Sequence[Problem]:
        """Sizes around every boundary of a tile, with padded rows and bases at the least alignment; a large one last.
        Without any k, all is zero."""
        m, n, k = configs.integers(config, "tile")
        shapes = [
            (0, n, k, 0, 0),
            (1, 1, 1, 0, 0),
            (3, 5, 0, 0, 0),
            (m - 1, n + 1, k - 1, 0, 1),
            (m, n, k, 0, 0),
            (m + 1, n - 1, 2 * k + 1, 1, 0),
            (2 * m + 3, 3 * n + 5, 7 * k + 5, 3, 1),
            (17, 2 * n, 40 * k, 1, 1),
            (1031, 769, 515, 1, 1),
            (_LARGE, _LARGE, _LARGE, 0, 0),
        ]
        return [
            {"m": m, "n": n, "k": k, "l": 1 if not config.get("batched") else 2 if m == _LARGE else 3,
             "padding": padding, "offset": offset}
            for m, n, k, padding, offset in shapes
        ]  # fmt: skip

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        """``a``, ``b`` and ``out``, of the config's dtypes and layouts."""
        import torch

        dtype, out_dtype = self.dtypes(config)
        m, n, k = problem["m"], problem["n"], problem["k"]
        far = problem["padding"] == _FAR
        generator = torch.Generator(device=device).manual_seed(seed)

        def matrix(name: str, shape: tuple[int, int], kind: str, rows: str) -> Any:
            apart = name == "out" or (name == "a" and bits(kind) == 16)
            padded = {**problem, "padding": (_FAR if apart else 0) if far else problem["padding"]}
            return _matrix(kind, padded, shape, config.get(f"{name}_major", rows) == rows, config)

        def filled(result: Any) -> Any:
            values = torch.randn(result.shape, generator=generator, dtype=torch.float32, device=device)
            return result.copy_(values.mul_(max(k, 1) ** -0.25))

        with torch.device(device):
            return {
                "a": filled(matrix("a", (m, k), dtype, "k")),
                "b": filled(matrix("b", (k, n), dtype, "n")),
                "out": matrix("out", (m, n), out_dtype, "n"),
            }

    def tolerance(self, config: Config) -> Tolerance:
        """The error of the sums, and the rounding of the result."""
        dtype, out_dtype = self.dtypes(config)
        return Tolerance(rtol=0.0, atol=_SUMS[dtype], ulps=_ULPS[out_dtype])

    def cost(self, config: Config, problem: Problem) -> Cost:
        """Two operations a product; each matrix once through memory.

        >>> from precast.kernels.own.matrix.sgemm import SGEMM
        >>> SGEMM.cost({}, {"m": 2, "n": 3, "k": 4, "l": 1})
        Cost(flops=48, bytes=104)
        """
        dtype, out_dtype = self.dtypes(config)
        m, n, k, count = problem["m"], problem["n"], problem["k"], problem["l"]
        stored = bits(dtype) * (m * k + k * n) + bits(out_dtype) * m * n
        return Cost(flops=2 * m * n * k * count, bytes=stored * count // 8)

    def tile(self, config: Config, target: Target) -> Tile | None:
        """One block for each tile; None for products of batches, whose problems have one axis more."""
        if config.get("batched"):
            return None
        m, n, _ = configs.integers(config, "tile")
        return Tile(sizes={"m": m, "n": n}, per_sm=self.staging(Design.of(config)).at_once)


def large(config: Config) -> Problem:
    """Few numbers, in rows so far apart that 32 bits do not count the elements from the first to the last one. With
    64-bit and 32-bit numbers that is the result alone, since such rows of two matrices take most of a GPU's memory."""
    return {"m": (1 << 16) + 3, "n": 72, "k": 40, "l": 1, "padding": _FAR, "offset": 0}


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The product in float64."""
    return {"out": inputs["a"].double() @ inputs["b"].double()}


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own product, where it stores the dtype that it multiplies; float32 is not shortened to TF32."""
    import torch

    a, b, out = inputs["a"], inputs["b"], inputs["out"]
    if a.dtype != out.dtype:
        return {}
    multiply = torch.bmm if a.dim() == 3 else torch.mm
    return {f"torch.{multiply.__name__}": lambda: multiply(a, b, out=out)}


def _matrix(dtype: str, problem: Problem, shape: tuple[int, int], row_major: bool, config: Config) -> Any:
    """Memory for a matrix: lines ``padding`` times the alignment further apart than needed, bases no better aligned."""
    import torch

    align = config.get("align", 16)
    step = max((align if isinstance(align, int) else 16) * 8 // bits(dtype), 1)
    lines, width = shape if row_major else shape[::-1]
    pitch = -(-width // step) * step + step * problem["padding"]
    if problem["padding"] == _FAR:
        pitch = max(_FAR, -(-width // step) * step)
    count, offset = problem["l"], step * problem["offset"]
    whole = torch.empty(count * lines * pitch + offset, dtype=to_torch(dtype))
    batched = bool(config.get("batched"))
    strides = (lines * pitch, pitch, 1) if batched else (pitch, 1)
    result = whole.as_strided((count, lines, width) if batched else (lines, width), strides, offset)
    return result if row_major else result.transpose(-1, -2)


def shape_refusal(config: Config, keys: Sequence[str] = ("tile", "warps")) -> str | None:
    """Why the keys that say how a block works have the wrong length, or None.

    >>> shape_refusal({"tile": (64, 64), "warps": (2, 2)})
    'tile is [64, 64]: write its (m, n, k)'
    """
    for key in keys:
        names = "(m, n, k)" if key == "tile" else "(m, n)"
        values = configs.integers(config, key)
        if len(values) != names.count(",") + 1:
            return f"{key} is {list(values)}: write its {names}"
    return None

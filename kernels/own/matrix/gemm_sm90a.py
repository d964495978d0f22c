"""Products of few rows, and of tiles that do not fill the GPU, on Hopper: one more way to compute ``gemm``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring.dtypes import bits
from precast.kernels.own.matrix.blocking import Blocking
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DTYPES = ("bfloat16", "float16", "float8_e4m3fn")
_STORED = ("bfloat16", "float16", "float32")
_PLAIN = {
    "accumulator": "float32", "a_major": "k", "b_major": "k", "out_major": "n", "batched": False, "epilogue": "",
}  # fmt: skip


def blocking(
    dtype: str,
    tile: Sequence[int],
    cluster: Sequence[int],
    *,
    swap: bool,
    split: int,
    residents: int,
    pingpong: bool = False,
) -> Blocking:
    """How a product is divided: ``tile`` is its (m, n) and perhaps k, ``cluster`` the blocks that load together.

    >>> [blocking(dtype, (16, 64), (1, 2), swap=True, split=2, residents=2).depth
    ...  for dtype in ("bfloat16", "float8_e4m3fn")]
    [128, 256]
    """
    width = bits(dtype) // 8
    along, across = cluster
    return Blocking(
        tokens=tile[0],
        rows=tile[1],
        depth=tile[2] if len(tile) > 2 else (256 if sum(tile) <= 128 else 128) // width,
        swap=swap,
        split=split,
        along=along,
        across=across,
        residents=residents,
        width=width,
        pingpong=pingpong,
    )


def blocking_of(config: Config) -> Blocking:
    """The blocking of a full config."""
    return blocking(
        str(config["dtype"]),
        configs.integers(config, "tile"),
        configs.integers(config, "cluster"),
        swap=bool(config["swap"]),
        split=configs.integer(config, "split"),
        residents=configs.integer(config, "residents"),
        pingpong=bool(config["pingpong"]),
    )


def refusal(config: Config, target: Target) -> str | None:
    """Why this project has no kernel for a config, ending in what would work; None where it has."""
    if str(target) != "sm_90a":
        return f"precast's own gemm is for sm_90a, not {target}: use library operators or quack"
    if config["dtype"] not in _DTYPES or config["out_dtype"] not in _STORED:
        return (
            f"precast's own gemm does not multiply {config['dtype']} into {config['out_dtype']}: use dtype "
            f"{', '.join(_DTYPES)} and out_dtype {', '.join(_STORED)}, or library operators"
        )
    wrong = next((name for name, value in _PLAIN.items() if config[name] != value), None)
    if wrong:
        return f"precast's own gemm is for {wrong} {_PLAIN[wrong]!r}, not {config[wrong]!r}: use library operators"
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    if len(tile) not in (2, 3):
        return f"tile is {list(tile)}: write its (m, n), or its (m, n, k)"
    if len(cluster) != 2:
        return f"cluster is {list(cluster)}: write its (m, n)"
    return blocking_of(config).refusal()


def compile_gemm(blocks: Blocking, tensors: Mapping[str, Any], *, weights: bool) -> Any:
    """Compile for placeholders of the caller's ``a``, ``b`` and ``out``."""
    from precast.kernels.own.matrix.device.gemm_sm90a import kernel

    return kernel.compile_gemm(blocks, tensors["a"], tensors["b"], tensors["out"], weights=weights)

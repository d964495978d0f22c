"""Products of few rows, and of tiles that do not fill the GPU, on Hopper: one more way to compute ``gemm``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels.authoring import configs
from precast.kernels.authoring.dtypes import bits
from precast.kernels.own.matrix.blocking import Blocking
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DTYPES = ("bfloat16", "float16", "float8_e4m3fn")
_STORED = ("bfloat16", "float16", "float32")
_PLAIN = {
    "accumulator": "float32", "a_major": "k", "b_major": "k", "out_major": "n", "batched": False, "epilogue": "",
}  # fmt: skip


def blocking_of(config: Config) -> Blocking:
    """The blocking of a full config: ``tile`` is its (m, n) and perhaps k, ``cluster`` who loads together.

    >>> shared = {"tile": (16, 64), "cluster": (1, 2), "swap": True, "split": 2, "residents": 2}
    >>> blocking_of({**shared, "dtype": "bfloat16"}).depth, blocking_of({**shared, "dtype": "float8_e4m3fn"}).depth
    (128, 256)
    """
    tile, (along, across) = configs.integers(config, "tile"), configs.integers(config, "cluster")
    width = bits(str(config["dtype"])) // 8
    depth = tile[2] if len(tile) > 2 else (256 if sum(tile) <= 128 else 128) // width
    return Blocking(
        tokens=tile[0],
        rows=tile[1],
        depth=depth,
        swap=bool(config["swap"]),
        split=configs.integer(config, "split"),
        along=along,
        across=across,
        residents=configs.integer(config, "residents"),
        width=width,
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


def compile_gemm(config: Config, tensors: Mapping[str, Any]) -> Any:
    """Compile for tensors that stand for the caller's ``a``, ``b`` and ``out``."""
    from precast.kernels.own.matrix.device import gemm_sm90a

    blocking, weights = blocking_of(config), bool(config["weights"])
    return gemm_sm90a.compile_gemm(blocking, tensors["a"], tensors["b"], tensors["out"], weights=weights)

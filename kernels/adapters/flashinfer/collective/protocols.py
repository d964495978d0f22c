"""What the library's kernels for several GPUs have in common: their modules, refusals, and how they are compiled."""

from __future__ import annotations

from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

MNNVL = "flashinfer.comm.mnnvl_cutedsl"
PROTOCOL = f"{MNNVL}.kernel_ll.protocol"
TARGETS = ("sm_100a", "sm_103a")


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or ranks_refusal(config)


def ranks_refusal(config: Config) -> str | None:
    """Why the GPUs are not some that the kernels know, or None.

    >>> ranks_refusal({"ranks": 4, "rank": 4})
    'rank is 4 of 4 ranks: use a number from 0 to 3'
    """
    ranks = configs.integer(config, "ranks")
    if ranks not in (2, 4, 8):
        return f"ranks is {ranks}: use 2, 4 or 8"
    if "rank" in config and not 0 <= configs.integer(config, "rank") < ranks:
        return f"rank is {config['rank']} of {ranks} ranks: use a number from 0 to {ranks - 1}"
    return None


def compiler(library_class: Any, **fields: Any) -> Any:
    """An object of a library's class that only compiles: the class's own initializer connects to the other GPUs."""

    class Compiler(library_class):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__.update(fields)

    return Compiler()


def fields(
    hidden: int,
    ranks: int,
    rank: int,
    most_rows: int,
    residual: bool = False,
    eps: float = 0.0,
    weight_bias: float = 0.0,
) -> dict[str, Any]:
    """The attributes that the library's compile methods read, by its names."""
    return {
        "hidden_size": hidden, "tp_size": ranks, "rank": rank, "capacity_m": most_rows, "rms_epsilon": eps,
        "weight_bias": weight_bias, "add_residual": residual, "write_residual_output": residual,
        "apply_rms_norm": True, "dynamic_fp8": False, "write_norm_output": False, "output_dtype": to_torch("bfloat16"),
    }  # fmt: skip

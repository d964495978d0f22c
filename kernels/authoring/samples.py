"""Sample data for kernels: random tensors to verify and bench with. Torch is imported when they are made."""

from __future__ import annotations

from typing import Any

from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.errors import ConfigError
from precast.loader.format.config import Config

# Half a unit in the last place of the stored result, and a little for arithmetic in float32 before it.
_ROUNDING = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}
FLOATS = tuple(_ROUNDING)


def normal(shape: tuple[int, ...], dtype: str, *, device: Any, seed: int, row_stride: int | None = None) -> Any:
    """Normally distributed values; the rows of a matrix stand ``row_stride`` elements apart.

    >>> normal((2, 4), "bfloat16", device="cpu", seed=0, row_stride=8).stride()
    (8, 1)
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float32, device=device)
    result = empty(shape, dtype, device=device, row_stride=row_stride)
    result.copy_(values)
    return result


def empty(shape: tuple[int, ...], dtype: str, *, device: Any, row_stride: int | None = None) -> Any:
    """Memory that holds anything, of the same layouts as ``normal``."""
    import torch

    if row_stride is None:
        return torch.empty(shape, dtype=to_torch(dtype), device=device)
    rows, columns = shape
    return torch.empty((rows, row_stride), dtype=to_torch(dtype), device=device)[:, :columns]


def tolerance(dtype: str, arithmetic: float) -> Tolerance:
    """What a result stored as ``dtype`` may differ by, after arithmetic with the given relative error.

    >>> tolerance("bfloat16", 0.0).rtol
    0.00390625
    """
    return Tolerance(rtol=_ROUNDING[dtype] + arithmetic, atol=_SMALLEST[dtype])


def integer(config: Config, key: str) -> int:
    """The integer that a config has under a key.

    >>> integer({"hidden": 4096}, "hidden")
    4096
    """
    value = config[key]
    if not isinstance(value, int):
        raise ConfigError(f"{key}: expected int, not {value!r}: complete the config before asking")
    return value


def unsupported_dtype(config: Config) -> str | None:
    """Why the config's dtype is none of float32, float16 and bfloat16; None where it is one.

    >>> unsupported_dtype({"dtype": "int8"})
    "dtype 'int8' is not supported: use one of float32, float16, bfloat16"
    """
    if config["dtype"] in FLOATS:
        return None
    return f"dtype {config['dtype']!r} is not supported: use one of {', '.join(FLOATS)}"

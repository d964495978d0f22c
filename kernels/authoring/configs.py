"""Reading a full config in the functions of a declaration."""

from __future__ import annotations

from precast.loader.errors import ConfigError
from precast.loader.format.config import Config

FLOATS = ("float32", "float16", "bfloat16")


def integer(config: Config, key: str) -> int:
    """The integer that a config has under a key.

    >>> integer({"hidden": 4096}, "hidden")
    4096
    """
    value = config[key]
    if not isinstance(value, int):
        raise ConfigError(f"{key}: expected int, not {value!r}: complete the config first")
    return value


def integers(config: Config, key: str) -> tuple[int, ...]:
    """The list of integers that a config has under a key.

    >>> integers({"tile": (128, 64)}, "tile")
    (128, 64)
    """
    value = config[key]
    if isinstance(value, tuple):
        found = tuple(one for one in value if isinstance(one, int))
        if len(found) == len(value):
            return found
    raise ConfigError(f"{key}: expected a list of int, not {value!r}: complete the config first")


def unsupported_dtype(config: Config, key: str = "dtype") -> str | None:
    """Why a dtype of the config is none of float32, float16 and bfloat16; None where it is one.

    >>> unsupported_dtype({"dtype": "int8"})
    "dtype 'int8' is not supported: use one of float32, float16, bfloat16"
    """
    if config[key] in FLOATS:
        return None
    return f"{key} {config[key]!r} is not supported: use one of {', '.join(FLOATS)}"

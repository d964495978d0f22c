"""Reading a full config in the functions of a declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from precast.loader.contract.format.config import Config
from precast.loader.errors import ConfigError

FLOATS = ("float32", "float16", "bfloat16")


def integer(config: Config, key: str) -> int:
    """The integer that a config has under a key.

    >>> integer({"hidden": 4096}, "hidden")
    4096
    """
    value = config[key]
    if not isinstance(value, int):
        raise ConfigError(f"{key}: expected int, got {value!r}: complete the config first")
    return value


def integers(config: Mapping[str, object], key: str) -> tuple[int, ...]:
    """The list of integers that a config has under a key; a function that compiles is given a list.

    >>> integers({"tile": (128, 64)}, "tile"), integers({"tile": [128]}, "tile")
    ((128, 64), (128,))
    """
    value = config[key]
    if isinstance(value, (tuple, list)):
        numbers = tuple(number for number in value if isinstance(number, int))
        if len(numbers) == len(value):
            return numbers
    raise ConfigError(f"{key}: expected a list of int, got {value!r}: complete the config first")


def not_among(config: Config, key: str, allowed: Sequence[object]) -> str | None:
    """Why a value of the config is none of those that are allowed; None where it is one.

    >>> not_among({"threads": 100}, "threads", (64, 128))
    'threads is 100: use one of 64, 128'
    """
    if config[key] in allowed:
        return None
    return f"{key} is {config[key]}: use one of {', '.join(map(str, allowed))}"


def unsupported_dtype(config: Config, key: str = "dtype") -> str | None:
    """Why a dtype of the config is none of float32, float16 and bfloat16; None where it is one.

    >>> unsupported_dtype({"dtype": "int8"})
    "dtype 'int8' is not supported: use one of float32, float16, bfloat16"
    """
    if config[key] in FLOATS:
        return None
    return f"{key} {config[key]!r} is not supported: use one of {', '.join(FLOATS)}"

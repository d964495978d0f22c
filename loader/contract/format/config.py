"""Configs: the compile-time constants of a kernel, their types, and the canonical form of each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.patterns import SCALARS
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError
from precast.loader.locks import IMPORT_LOCK

if TYPE_CHECKING:
    from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | tuple[Value, ...] | None"
Config: TypeAlias = "Mapping[str, Value]"

DTYPES = (
    "float64", "float32", "tfloat32", "float16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn",
    "int64", "int32", "int16", "int8", "int4", "uint64", "uint32", "uint16", "uint8", "bool",
)  # fmt: skip
_DTYPE_ALIASES = {
    "double": "float64", "float": "float32", "half": "float16", "tf32": "tfloat32",
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "f64": "float64", "f32": "float32", "f16": "float16",
    "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "fp8_e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu", "ue8m0": "float8_e8m0fnu",
    "fp4": "float4_e2m1fn", "e2m1": "float4_e2m1fn", "float4_e2m1fn_x2": "float4_e2m1fn",
    "long": "int64", "int": "int32", "short": "int16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip
DTYPE_NAMES = {**{d: d for d in DTYPES}, **_DTYPE_ALIASES}
"""The canonical name of a dtype, by its common names."""

_DEPTH = 12
_NUMBER = "([0-9]{1,18})"
_TEXT = 1024
_ITEMS = 4096
_NAMED = 50  # words in a message
_COMPARED = 300


def dtype_name(value: object) -> str:
    """The canonical name of a dtype, from ``torch.bfloat16``, ``numpy.float32`` or a common short name.

    >>> dtype_name("bf16"), dtype_name("half")
    ('bfloat16', 'float16')
    """
    if isinstance(value, str):
        text = value
    elif type(value).__module__ == "torch":
        text = str(value)
    elif isinstance(value, type):
        text = value.__name__
    else:
        text = getattr(value, "name", None) or str(value)
    short = text.rsplit(".", 1)[-1].lower()
    name = DTYPE_NAMES.get(short)
    if name is None:
        raise ConfigError(f"{value!r} is not a dtype{suggest(short, DTYPE_NAMES)}")
    return name


def suggest(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """``; did you mean 'x'?`` with the nearest known word, or else the list of these; then another remedy, if any.

    >>> suggest("hiden", ["hidden", "dtype"])
    "; did you mean 'hidden'?"
    >>> suggest("hiden", ["hidden"], "or leave it out"), suggest("x", [], "or leave it out")
    ("; did you mean 'hidden'? Or leave it out", '; or leave it out')
    """
    with IMPORT_LOCK:
        import difflib  # only errors need it
    words = sorted(map(str, names))
    near = difflib.get_close_matches(word, _similar(word, words), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?" + (f" {otherwise[0].upper()}{otherwise[1:]}" if otherwise else "")
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    choices = f"; it takes one of: {', '.join(words[:_NAMED])}{more}" if words else ""
    return f"{choices}; {otherwise}" if otherwise else choices


def _similar(word: str, words: list[str]) -> list[str]:
    """The words that share the most pairs of letters with one, of many: to compare a pair of words takes 0.2 ms."""
    if len(words) <= _COMPARED:
        return words
    pairs = set(map("".join, pairwise(word)))
    return sorted(words, key=lambda other: sum(pair in other for pair in pairs), reverse=True)[:_COMPARED]


def to_value(value: object, depth: int = 0) -> Value:
    """A config value as precast stores it: lists become tuples. Raises a ConfigError if it is not a plain value.

    >>> to_value([64, [1, 2]])
    (64, (1, 2))
    """
    if depth > _DEPTH:
        raise ConfigError(f"lists nest deeper than {_DEPTH} levels: flatten the value")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{value!r} is not a config value: use a finite number")
        return value + 0.0  # -0.0 becomes 0.0
    if isinstance(value, str):
        if len(value) > _TEXT:
            raise ConfigError(f"a text of {len(value)} characters is not a config value: {_TEXT} at most")
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ConfigError("an integer beyond 64 bits is not a config value: use a smaller one")
        return value
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        if len(value) > _ITEMS:
            raise ConfigError(f"a list of {len(value)} items is not a config value: {_ITEMS} at most")
        return tuple(to_value(v, depth + 1) for v in value)
    raise ConfigError(f"{type(value).__name__} is not a config value: use str, int, float, bool, None or lists of them")


def to_json(value: Value) -> Any:
    """The value for JSON: tuples become lists."""
    return [to_json(v) for v in value] if isinstance(value, tuple) else value


def canonical(data: object) -> bytes:
    """The canonical JSON of a value, for digests: sorted, compact, ASCII, no NaN.

    >>> canonical({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def config_order(config: Mapping[str, Value]) -> tuple[Any, ...]:
    """The sort key of configs in lists for people: their text, with the numbers in it by size.

    >>> sorted([{"n": 1024}, {"n": 16}, {"dtype": "float32", "n": 2}], key=config_order)
    [{'dtype': 'float32', 'n': 2}, {'n': 16}, {'n': 1024}]
    """
    text = canonical({name: to_json(value) for name, value in config.items()}).decode()
    return tuple(int(part) if index % 2 else part for index, part in enumerate(re.split(_NUMBER, text)))


def config_text(config: Mapping[str, Any]) -> str:
    """A config as a line of YAML.

    >>> config_text({"dtype": "bfloat16", "hidden": 4096, "tile": (64, 128)})
    '{dtype: bfloat16, hidden: 4096, tile: [64, 128]}'
    """
    return "{" + ", ".join(f"{name}: {value_text(value)}" for name, value in config.items()) + "}"


def value_text(value: object) -> str:
    """A value as a line of YAML.

    >>> value_text((64, "bf16", "on"))
    '[64, bf16, "on"]'
    """
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    plain = isinstance(value, str) and value.replace("_", "a").isalnum() and value.isascii() and not value[0].isdigit()
    if plain and str(value).lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n"):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


class Key(Immutable, kw_only=True):
    """One key of an op's config: its name, type, kind and default.

    ``type`` is one of ``dtype str int float bool any``, ``list[...]`` of one, or any of these followed by ``?``
    where ``None`` is allowed. A key with ``has_default`` is optional.
    """

    name: str
    type: str = "any"
    tuned: bool = False
    has_default: bool = False
    default: Value = None
    choices: tuple[Value, ...] = ()

    @property
    def may_be_output(self) -> bool:
        """Whether it can be for an optional output: then the kernel writes an argument of its name where it is true."""
        return self.type == "bool" and not self.tuned and self.has_default and self.default is False

    def normal(self, value: object) -> Value:
        """The value in its canonical form. Raises a ConfigError that names the key.

        >>> Key(name="dtype", type="dtype").normal("bf16")
        'bfloat16'
        """
        try:
            result = _normal(self.type, value)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None
        if self.choices and result not in self.choices:
            raise ConfigError(f"{self.name}: {result!r} is not allowed{suggest(str(result), map(str, self.choices))}")
        return result


def _normal(kind: str, value: object) -> Value:
    if kind.endswith("?"):
        return None if value is None else _normal(kind[:-1], value)
    if kind == "any":
        return to_value(value)
    if kind == "dtype":
        return dtype_name(value)
    if kind.startswith("list[") and kind.endswith("]"):
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"expected a list, got {value!r}: write [..]")
        return tuple(_normal(kind[5:-1], v) for v in value)
    good = {
        "str": isinstance(value, str),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
    }.get(kind)
    if good is None:
        raise ConfigError(f"{kind!r} is not a type of config value: use one of {', '.join(SCALARS)} or list[..] of one")
    if not good:
        raise ConfigError(f"expected {kind}, got {value!r}")
    return to_value(float(value) if kind == "float" else value)  # type: ignore[arg-type]


def complete(keys: Iterable[Key], values: Mapping[str, object], *, op: str) -> dict[str, Value]:
    """The full config of an op: every value in its canonical form, with defaults.

    >>> keys = [Key(name="hidden", type="int"), Key(name="eps", type="float", has_default=True, default=1e-6)]
    >>> complete(keys, {"hidden": 4096}, op="rmsnorm")
    {'hidden': 4096, 'eps': 1e-06}
    """
    table = {k.name: k for k in keys}
    result = normalise(table.values(), values, op=op)
    for key in table.values():
        if key.name not in result:
            if not key.has_default:
                raise ConfigError(f"op {op!r} needs the config key {key.name!r} ({key.type}): add it")
            result[key.name] = key.default
    return {name: result[name] for name in table}


def normalise(keys: Iterable[Key], values: Mapping[str, object], *, op: str) -> dict[str, Value]:
    """The given values in their canonical form, without defaults. Raises a ConfigError for an unknown key."""
    table = {k.name: k for k in keys}
    result: dict[str, Value] = {}
    for name, value in values.items():
        key = table.get(name) if isinstance(name, str) else None
        if key is None:
            raise ConfigError(f"op {op!r} has no config key {name!r}{suggest(str(name), table)}")
        try:
            result[name] = key.normal(value)
        except ConfigError as error:
            raise ConfigError(f"op {op!r}, config key {error}") from None
    return result

"""Keys: what a library requests of its compiler, written as plain JSON that reads the same in every process.

A key consists of arguments of a library's compile function. Each has one form: plain values are themselves; anything
else is a text that begins with ``$``, or a list whose first item is one. No pickle, no ``repr``, no address: a value of
an unknown type is refused by name, since a guess could make two different kernels share a key.

====================  =====================================================================
a value               its form
====================  =====================================================================
None, bool, int, str  itself (a text that begins with ``$`` as ``"$str:..."``)
float                 itself; one that JSON lacks as ``"$float:inf"``, ``"$float:-0.0"`` or ``"$float:-nan"``
a type of the DSL     ``"$cutlass:BFloat16"``, by its last name
an enum of the DSL    ``"$cutlass:OperandMajorMode.K"``; one of a family of instructions has the family before it,
                      ``"$cutlass:tcgen05.CtaGroup.ONE"``, since families use the same names
torch.bfloat16        ``"$torch:bfloat16"``
another enum          ``"$enum:module:Class.MEMBER"``
a class, a function   ``"$ref:module:name"``, and ``"$ref:module:name.__wrapped__"`` for what that value wraps
a tuple               a list
a list                ``["$list", ...]``
a dict                ``["$dict", [key, value], ...]``, in its own order, which a kernel may depend on
a named tuple         ``["$namedtuple:module:Class", ...]``
a dataclass           ``["$dataclass:module:Class", [field, value], ...]``, with every field
by a library's rule   ``["$made:NAME", argument, ...]``, where ``NAME`` is one of its makers
a tensor              ``["$tensor", dtype, [sizes], [strides], requires_grad]``: of a call, never of a key
====================  =====================================================================
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

from precast.loader.errors import PrecastError

DEPTH = 12
DSL = "cutlass"
FAMILIES, FAMILY_PACKAGE = ("warp", "warpgroup", "tcgen05", "cpasync"), f"{DSL}.cute.nvgpu"
# The modules of the DSL that have what a key may name, in the order that decides between equal names.
_HOMES = (
    "cutlass", "cutlass.cute", "cutlass.cute.nvgpu", "cutlass.utils", "cutlass.pipeline", "cutlass.cute.arch",
    "cutlass.cute.nvgpu.warpgroup", "cutlass.cute.nvgpu.tcgen05", "cutlass.cute.nvgpu.warp", "cutlass.cute.typing",
)  # fmt: skip
# Each is the name of several types of the DSL, which placeholders do not tell from each other.
_SEVERAL = ("SmemAllocator", "TmemAllocator", "SharedSpace", "L2PrefetchSize")
_NOT_DSL = ("cutlass.operators", "cutlass.kernels")  # libraries of kernels that stand inside the DSL's package


class UnknownKey(PrecastError, TypeError):
    """A value has no form that is the same in every process; the message names its type and what to do."""

    code = "PCA03"


Describe = Callable[[Any], "tuple[str, tuple[Any, ...]] | None"]


def encode(value: Any, *, tensors: bool = False, describe: Describe | None = None) -> Any:
    """The plain form of a value.

    Parameters
    ----------
    value
        An argument of a compile function, or of a call.
    tensors
        Whether tensors are allowed, described by dtype, sizes and strides.
    describe
        A library's own rule: for a value that is valid in one process only, how to make an equal one: a name in
        the ``makers`` of ``key_reader.decode``, and its arguments; None for every other value.

    >>> encode(("k", 128, (1, 2), None)), encode("$x")
    (['k', 128, [1, 2], None], '$str:$x')
    """
    return _encode(value, 0, tensors, describe)


def canonical(form: Any) -> str:
    """The one JSON text of a form, for digests and comparisons.

    >>> canonical(encode({"b": 1, "a": 2.0}))
    '["$dict",["b",1],["a",2.0]]'
    """
    return json.dumps(form, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _encode(value: Any, depth: int, tensors: bool, describe: Describe | None) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is str:
        return f"$str:{value}" if value.startswith("$") else value
    if kind is float:
        negative_zero = value == 0 and math.copysign(1.0, value) < 0  # a config has one zero; a key has two
        return value if math.isfinite(value) and not negative_zero else f"$float:{_special(value)}"
    if depth > DEPTH:
        raise UnknownKey(f"a key nests deeper than {DEPTH} levels: it cannot be recorded")
    inner = functools.partial(_encode, depth=depth + 1, tensors=tensors, describe=describe)
    maker = describe(value) if describe else None
    if maker is not None:
        return [f"$made:{maker[0]}", *map(inner, maker[1])]
    if isinstance(value, enum.Enum):
        return _enum(value)
    if isinstance(value, type):
        return f"${DSL}:{_dsl_name(value)}" if _of_dsl(value) else f"$ref:{place_of(value)}"
    if isinstance(value, tuple):
        items = [inner(item) for item in value]
        if kind is tuple or _is_torch(kind):  # torch.Size is a tuple
            return items
        if hasattr(kind, "_fields") and not getattr(value, "__dict__", None):
            return [f"$namedtuple:{place_of(kind)}", *items]
        raise _unknown(value)
    if kind is list:
        return ["$list", *map(inner, value)]
    if kind is dict:
        return ["$dict", *([inner(name), inner(item)] for name, item in value.items())]
    if dataclasses.is_dataclass(value):
        fields = [[name, inner(getattr(value, name))] for name in _field_names(value)]
        return [f"$dataclass:{place_of(kind)}", *fields]
    if _is_torch(kind):
        return _encode_torch(value, tensors)
    if callable(value) and hasattr(value, "__qualname__"):
        return f"$ref:{place_of(value)}"
    raise _unknown(value)


def _special(value: float) -> str:
    """The text of a float that JSON lacks. A kernel may have the bits of a NaN in it."""
    if math.isnan(value):
        for text in ("nan", "-nan"):
            if struct.pack("d", value) == struct.pack("d", float(text)):
                return text
        raise UnknownKey("a NaN with bits of its own has no form as a key, so the kernel is compiled as before")
    return str(value)


def _field_names(value: Any) -> list[str]:
    """The names of a dataclass's fields; it may have no other attributes, since a kernel may depend on them."""
    names = [field.name for field in dataclasses.fields(value)]
    for name in getattr(value, "__dict__", {}):
        if name not in names and not isinstance(getattr(type(value), name, None), functools.cached_property):
            raise UnknownKey(
                f"a {type(value).__qualname__} has the attribute {name!r}, which is not one of its fields, so the "
                "kernel is compiled as before: declare it as a field"
            )
    return names


def _enum(value: enum.Enum) -> str:
    kind = type(value)
    if kind.__members__.get(value.name) is not value:  # several flags at once
        raise _unknown(value)
    return f"${DSL}:{_dsl_name(kind)}.{value.name}" if _of_dsl(kind) else f"$enum:{place_of(kind)}.{value.name}"


def _dsl_name(kind: type) -> str:
    """The last name of a type of the DSL, after its family of instructions. A placeholder may stand for a member."""
    modules, name = str(kind.__module__).split("."), kind.__qualname__
    while modules[-1][:1].isupper():
        name = f"{modules.pop()}.{name}"
    package = FAMILY_PACKAGE.split(".")
    family = modules[len(package)] if modules[: len(package)] == package and len(modules) > len(package) else ""
    whole = f"{family}.{name}" if family in FAMILIES else name
    alone = of_dsl_named(whole, _imported) in (None, kind) if DSL in sys.modules else name not in _SEVERAL
    if not alone:
        raise UnknownKey(
            f"the DSL has several types {whole}, and a {kind.__module__}.{name} is not the one that keys name"
        )
    return whole


def of_dsl_named(name: str, value_of: Callable[[str, str], Any]) -> Any:
    """A type of the DSL or a member of its enums, by its last name, from the first module that has it; else None.

    ``value_of`` returns the value that a module has under a name.

    >>> of_dsl_named("Float32", lambda module, name: None) is None
    True
    """
    family, _, rest = name.partition(".")
    homes = (f"{FAMILY_PACKAGE}.{family}",) if family in FAMILIES else _HOMES
    head, _, member = (rest if family in FAMILIES else name).partition(".")
    for home in homes:
        value = value_of(home, head)
        if isinstance(value, type):
            return getattr(value, member, None) if member else value
    return None


def _imported(module: str, name: str) -> Any:
    """What an imported module itself has: to read a deprecated name of the DSL would warn."""
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def _encode_torch(value: Any, tensors: bool) -> Any:
    torch = sys.modules["torch"]
    if isinstance(value, torch.dtype):
        return f"$torch:{str(value).removeprefix('torch.')}"
    if tensors and isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return ["$tensor", dtype, [int(n) for n in value.shape], [int(n) for n in value.stride()], value.requires_grad]
    if isinstance(value, torch.device):
        return f"$device:{value.type}"
    raise _unknown(value)


def _is_torch(kind: type) -> bool:
    """Whether a type is torch's or derived from one of torch's; this does not import torch."""
    return "torch" in sys.modules and any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)


def _of_dsl(kind: type) -> bool:
    return is_of_dsl(str(kind.__module__))


def is_of_dsl(module: str) -> bool:
    """Whether a module is the DSL's own.

    >>> is_of_dsl("cutlass.cute.core"), is_of_dsl("cutlass.operators.base")
    (True, False)
    """
    return module.partition(".")[0] == DSL and not any(module.startswith(f"{package}.") for package in _NOT_DSL)


def place_of(value: Any) -> str:
    """``module:name`` of a class or function, which must be its value.

    >>> place_of(place_of).rpartition(":")[2]
    'place_of'
    """
    module, name = getattr(value, "__module__", None), value.__qualname__
    if not isinstance(module, str) or "<" in name:
        raise UnknownKey(
            f"{name} is defined inside a function, where no other process can import it: move it to a module"
        )
    value_there: Any = sys.modules.get(module)
    for part in name.split("."):
        value_there = getattr(value_there, part, None)
    if value_there is value:
        return f"{module}:{name}"
    if getattr(value_there, "__wrapped__", None) is value:
        return f"{module}:{name}.__wrapped__"
    raise UnknownKey(
        f"{module}:{name} is another value than this one, which cannot be recorded: define it under its own name"
    )


def _unknown(value: Any) -> UnknownKey:
    kind = type(value)
    return UnknownKey(
        f"a {kind.__module__}.{kind.__qualname__} has no form as a key, so the kernel is compiled as before: "
        "declare the seam further up, where the arguments are plain"
    )

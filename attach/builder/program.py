"""Programs: entries that are run. Every kernel that they request from an attached library is built.

    - call: "quack:softmax"
      with: {x: {dtype: dtype, shape: [rows, N], requires_grad: true}, scale: "${scale}"}
      config: {dtype: [bfloat16, float16], rows: 64, N: [4096, 8192], scale: 1.0}
      backward: true
    - script: warmup.py
      arguments: [--fast]

In the fields of a tensor a name is a key of ``config``. Elsewhere, where it could be a text, it is written ``${name}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.errors import ManifestError
from precast.build.plan.entry_reader import FUNCTION
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.config import Value, dtype_name, suggest, to_json
from precast.loader.contract.format.patterns import LIBRARY_NAME, NAME
from precast.loader.errors import ConfigError

TENSOR = ("dtype", "shape", "strides", "requires_grad", "values")
_NAMED = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_LARGEST = 2**62

Nodes = Mapping[str, Node]
Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call of a function, ``module:function``, with sample arguments, and optionally its backward pass."""

    place: str  # words: allow
    arguments: Nodes
    backward: bool = False
    libraries: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The function."""
        return self.place

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of ``config``, which the arguments name."""
        return tuple(sorted({name for node in self.arguments.values() for name in _names(node)}))

    def request(self, values: Values) -> dict[str, Any]:
        """The request to a child process, for one value of each name."""
        arguments = {name: _form(node, values) for name, node in self.arguments.items()}
        return {"call": self.place, "arguments": arguments, "backward": self.backward}

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script and its arguments."""

    path: Path
    arguments: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The file."""
        return self.path

    @property
    def names(self) -> tuple[str, ...]:
        """A script has no keys."""
        return ()

    def request(self, values: Values) -> dict[str, Any]:
        """The request to a child process."""
        return {"script": str(self.path), "arguments": list(self.arguments)}

    def __str__(self) -> str:
        return self.path.name


Program = Call | Script


def parse_program(kind: str, data: Nodes, folder: Path) -> Program:
    """The program of an entry with ``call`` or ``script``, relative to the manifest's folder."""
    libraries = yaml_fields.some(data["libraries"], _library) if "libraries" in data else ()
    if kind == "script":
        words = yaml_fields.items(data["arguments"]) if "arguments" in data else ()
        return Script(path=_file(data["script"], folder), arguments=tuple(map(_word, words)), libraries=libraries)
    given = yaml_fields.mapping(data["with"]) if "with" in data else {}
    keys = _keys(data)
    for name, node in given.items():
        if not NAME.admits(name):
            raise ManifestError(
                f"{name[:80]!r} is not the name of an argument: use letters, digits and _", node.named_at
            )
        _check(node, keys)
    named = {name for node in given.values() for name in _names(node)}
    for name in keys.keys() - named:
        raise ManifestError(f"no argument in 'with' uses {name!r}: use it there, or remove it", keys[name].named_at)
    return Call(
        place=yaml_fields.matching(data["call"], FUNCTION, "'module:function': write it like 'quack:softmax'"),
        arguments=given,
        backward=yaml_fields.boolean(data["backward"]) if "backward" in data else False,
        libraries=libraries,
    )


def _library(node: Node) -> str:
    return yaml_fields.matching(node, LIBRARY_NAME, "the name of a library: use one that is declared, such as 'quack'")


def _word(node: Node) -> str:
    if isinstance(node.value, bool) or not isinstance(node.value, (str, int, float)):
        raise ManifestError(f"expected a text or a number, got {node.kind}: quote it if it is meant as text", node.at)
    return node.value if isinstance(node.value, str) else str(node.value)


def _file(node: Node, folder: Path) -> Path:
    text = yaml_fields.text(node)
    reason = f"{text!r} is not a file beside the manifest: correct the path"
    return yaml_fields.existing_path(folder / text, Path.is_file, reason, node)


def _keys(data: Nodes) -> dict[str, Node]:
    """The keys that ``config`` and the rows of ``include`` give values for."""
    rows = [data["config"]] if "config" in data else []
    rows += yaml_fields.items(data["include"]) if "include" in data else ()
    return {name: node for row in rows for name, node in yaml_fields.mapping(row).items()}


def _check(node: Node, keys: Nodes) -> None:
    """Refuse an argument that is invalid for any values of its names."""
    if isinstance(node.value, dict):
        _check_tensor(node, keys)
    elif isinstance(node.value, tuple):
        for item in node.value:
            _check(item, keys)
    elif isinstance(node.value, str) and "${" in node.value:
        _check_name(_named(node.value), node, keys)


def _check_tensor(node: Node, keys: Nodes) -> None:
    data = yaml_fields.mapping(node, TENSOR)
    dtype = yaml_fields.required(data, "dtype", node)
    if yaml_fields.text(dtype) not in keys:
        _dtype(dtype.value, dtype)
    if ("shape" in data) == ("values" in data):
        raise ManifestError("a tensor has either 'shape' or 'values': write one of them", node.at)
    if "values" in data and "strides" in data:
        raise ManifestError("'strides' is only allowed with 'shape': remove it", data["strides"].at)
    if "strides" in data and len(_items(data, "strides")) != len(_items(data, "shape")):
        raise ManifestError("'strides' and 'shape' differ in length: correct one of the lists", data["strides"].at)
    checks = {"shape": _size, "strides": _size, "values": _number, "requires_grad": _truth}
    for name, field in data.items():
        for leaf in _leaves(field) if name in checks else ():
            if isinstance(leaf.value, str):
                _check_name(leaf.value, leaf, keys)
            else:
                checks[name](leaf.value, leaf)
    for sizes in (_items(data, "shape"), _items(data, "strides")):
        for size in sizes:
            if isinstance(size.value, tuple):
                raise ManifestError("a size is a number: remove the inner list", size.at)


def _check_name(name: str | None, node: Node, keys: Nodes) -> None:
    if name is None:
        raise ManifestError("a name must be the whole text: write '${name}' and nothing else", node.at)
    if name not in keys:
        raise ManifestError(f"'config' has no key {name[:80]!r}{suggest(name[:80], keys)}: add a value for it", node.at)


def _items(data: Nodes, name: str) -> tuple[Node, ...]:
    return yaml_fields.items(data[name]) if name in data else ()


def _names(node: Node) -> Iterator[str]:
    """The keys of ``config`` that an argument names."""
    if isinstance(node.value, dict):
        for name, field in node.value.items():
            if name != "dtype" or not _is_dtype(field.value):
                yield from (leaf.value for leaf in _leaves(field) if isinstance(leaf.value, str))
    elif isinstance(node.value, tuple):
        for item in node.value:
            yield from _names(item)
    elif (named := _named(node.value)) is not None:
        yield named


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node.value, tuple):
        for item in node.value:
            yield from _leaves(item)
    else:
        yield node


def _named(value: object) -> str | None:
    """The name that a whole text ``${name}`` stands for."""
    match = _NAMED.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match else None


def _form(node: Node, values: Values) -> Any:
    """An argument as ``precast.attach.recordings.keys`` writes it, which the child process decodes."""
    if isinstance(node.value, dict):
        return _tensor(node.value, values)
    if isinstance(node.value, tuple):
        return ["$list", *(_form(item, values) for item in node.value)]
    name = _named(node.value)
    value = node.value if name is None else to_json(values[name])
    if isinstance(value, str) and value.startswith("torch."):
        _dtype(value, node)
        return f"$torch:{value.removeprefix('torch.')}"
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """A plain value in that form.

    >>> _scalar("$x"), _scalar(-0.0), _scalar(8)
    ('$str:$x', '$float:-0.0', 8)
    """
    if isinstance(value, str) and value.startswith("$"):
        return f"$str:{value}"
    needs_text = isinstance(value, float) and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0))
    return f"$float:{value}" if needs_text else value


def _tensor(data: Nodes, values: Values) -> list[Any]:
    text = data["dtype"].value
    dtype = _dtype(text if _is_dtype(text) else values[str(text)], data["dtype"])
    requires_grad = _filled(data["requires_grad"], values, _truth) if "requires_grad" in data else False
    if "values" in data:
        return ["$made:values", dtype, _filled(data["values"], values, _number), requires_grad]
    shape = _filled(data["shape"], values, _size)[1:]
    strides = _filled(data["strides"], values, _size)[1:] if "strides" in data else _contiguous(shape)
    return ["$tensor", dtype, shape, strides, requires_grad]


def _filled(node: Node, values: Values, check: Callable[[Any, Node], Any]) -> Any:
    """A field of a tensor with the values of its names."""
    if isinstance(node.value, tuple):
        return ["$list", *(_filled(item, values, check) for item in node.value)]
    return check(to_json(values[node.value]) if isinstance(node.value, str) else node.value, node)


def _size(value: Any, node: Node) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ManifestError(
            f"{_shown(value, node)} is not a size: give an integer of 0 or more, or a key of 'config'", node.at
        )
    return value


def _number(value: Any, node: Node) -> int | float | bool:
    if not isinstance(value, (int, float)):
        raise ManifestError(f"{_shown(value, node)} is not a number: give one, or a key of 'config'", node.at)
    return value


def _truth(value: Any, node: Node) -> bool:
    if not isinstance(value, bool):
        raise ManifestError(f"{_shown(value, node)} is not true or false: write one, or a key of 'config'", node.at)
    return value


def _shown(value: Any, node: Node) -> str:
    return f"{node.value} is {value!r}, which" if isinstance(node.value, str) else repr(value)[:80]


def _is_dtype(value: object) -> bool:
    try:
        dtype_name(value)
    except ConfigError:
        return False
    return True


def _dtype(value: Any, node: Node) -> str:
    try:
        return dtype_name(value)
    except ConfigError as error:
        raise ManifestError(f"{error}", node.at) from None


def _contiguous(shape: list[int]) -> list[int]:
    """The strides of a contiguous tensor, as torch has them.

    >>> _contiguous([2, 3, 4])
    [12, 4, 1]
    """
    return [math.prod(max(size, 1) for size in shape[position + 1 :]) for position in range(len(shape))]

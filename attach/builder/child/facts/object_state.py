"""Object state: the plain attributes of classes and of objects in globals, such as settings, that code reads by name.

Only what an object or a class itself holds is looked at; no property or other code of it runs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import Any

from precast.attach.builder.child.facts.steady_globals import is_steady
from precast.attach.recordings.function_state import is_of_its_source, wrapped_function
from precast.attach.recordings.kernel_facts import held

_PLAIN = (bool, int, float, str, enum.Enum, type(None))
_DEEPEST = 3  # settings in settings
_DEVICES = ("device", "device_id", "device_index")  # numbers of a device: one kernel serves all ranks of a server


def attributes_of(
    path: str, value: Any, read: Collection[str], counts: Callable[[str], bool], depth: int = 1
) -> Iterator[str]:
    """The paths of plain attributes of an object, and of objects in it, that are read by these names.

    Parameters
    ----------
    path, value
        The name of the object in its module, and the object. One that is a class, or of a class that does not count,
        has none.
    read
        The names of attributes that code reads.
    counts
        Whether a kernel may be made of a module.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(tile=64, hits=3, inner=SimpleNamespace(tile=32))
    >>> list(attributes_of("STATE", state, {"tile", "inner"}, lambda module: True))
    ['STATE.inner.tile', 'STATE.tile']
    """
    if isinstance(value, type) or not (isinstance(value, ContextVar) or counts(str(type(value).__module__))):
        return
    for name, inner in sorted(held(value).items()):
        if name not in read or name in _DEVICES:
            continue
        if is_plain(inner) or isinstance(value, ContextVar):
            yield f"{path}.{name}"
        elif depth < _DEEPEST:
            yield from attributes_of(f"{path}.{name}", inner, read, counts, depth + 1)


def attributes_of_class(owner: type, read: Collection[str]) -> Iterator[str]:
    """The paths of a class's own plain attributes and methods that are read by these names.

    A list counts where the source has its items: programs fill others.

    >>> class Settings: tile, hits = 64, 0
    >>> [path.rpartition(".")[2] for path in attributes_of_class(Settings, {"tile"})]
    ['tile']
    """
    if issubclass(owner, enum.Enum):
        return
    for name, value in vars(owner).items():
        path = f"{owner.__qualname__}.{name}"
        special = name.startswith("__")
        if _is_written(owner, value):
            counts = name in read or special
        elif name not in read or name in _DEVICES or special:
            counts = False
        elif isinstance(value, list):
            counts = all(map(is_plain, value)) and is_steady(owner.__module__, path)
        else:
            counts = is_plain(value)
        if counts:
            yield path


def _is_written(owner: type, value: Any) -> bool:
    """Whether a value is a method that the source of its class has. A dataclass has others."""
    function = wrapped_function(value)
    return function is not None and function.__module__ == owner.__module__ and is_of_its_source(function)


def is_plain(value: Any) -> bool:
    """Whether a value can be compared by what it is.

    >>> is_plain((1, "two")), is_plain([1])
    (True, False)
    """
    return all(map(is_plain, value)) if isinstance(value, (tuple, frozenset)) else isinstance(value, _PLAIN)

"""Which function lowers an opcode. A family's module registers its functions when it is imported."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import precast.emulator.lowering as families

if TYPE_CHECKING:
    from precast.emulator.lowering.lowering import Lowering

Lower: TypeAlias = "Callable[[Lowering], None]"
_FUNCTIONS: dict[str, Lower] = {}


def lowers(*names: str) -> Callable[[Lower], Lower]:
    """Register a function for opcodes, by their first word or, before that, their first two.

    >>> @lowers("example")
    ... def example(to): ...
    >>> "example" in lowering_functions()
    True
    """

    def register(function: Lower) -> Lower:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return register


@functools.cache
def lowering_functions() -> Mapping[str, Lower]:
    """All of them, of all families."""
    for module in pkgutil.walk_packages(families.__path__, families.__name__ + "."):
        importlib.import_module(module.name)
    return _FUNCTIONS

"""Native modules of a library's own, in a program that is recorded without a GPU: none is built, and no function of
one does anything.

A front end may sort or copy by a C++ module before it asks for its kernels. What such a module writes is not known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from precast.loader.attach import after_import


class NativeModule:
    """Stands for a module of native code: it has every function, and each does nothing.

    >>> NativeModule().sort(1, 2) is None
    True
    """

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing

    def __getitem__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def install_fake_modules(builders: Iterable[str]) -> None:
    """Have what builds or loads native modules, as ``module:Class.method``, give one that does nothing."""
    for builder in builders:
        module, _, name = builder.partition(":")
        after_import({module: functools.partial(_replace, name)})


def _replace(name: str, module: ModuleType) -> None:
    owner: Any = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, last, lambda *args, **kwargs: NativeModule())

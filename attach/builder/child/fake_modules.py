"""Fake native modules of libraries, for programs that are recorded without a GPU: their functions do nothing.

A front end may use a C++ module to sort or copy before it requests its kernels. The results of such a module are lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from precast.loader.contract.import_hook import after_import


class NativeModule:
    """A module of native code with any function, all of which do nothing.

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
    """Replace functions that build or load native modules, given as ``module:Class.method``, by a fake module."""
    for builder in builders:
        module, _, name = builder.partition(":")
        after_import({module: functools.partial(_replace, name)})


def _replace(name: str, module: ModuleType) -> None:
    owner: Any = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, last, lambda *args, **kwargs: NativeModule())

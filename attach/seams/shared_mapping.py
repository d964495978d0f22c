"""A mapping in which several functions of a library keep what they compile."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

from precast.attach.late.holders import Held, if_held
from precast.attach.library import KernelSource, Library, Seam
from precast.attach.seams.cached_compile import CachedMapping
from precast.loader.contract.import_hook import after_import, after_import_below, imported_below, is_below


class SharedMapping(Seam):
    """A mapping of a module, ``module:attribute``, in which the functions of a package keep what they compile.

    These are the functions below ``package`` that call ``lookup``, by its name, to read the mapping. Each has kernels
    of its own there; a recording keeps the arguments of the function's call, to build from.
    """

    module: str
    attribute: str
    lookup: str
    package: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        mapping = CachedMapping(attachment, library, None, {})

        def change(module: ModuleType) -> None:
            mapping.update(getattr(module, self.attribute))
            setattr(module, self.attribute, mapping)

        def wrap(module: ModuleType) -> None:
            for name, function in self.functions(module):
                setattr(module, name, mapping.calls_of(f"{module.__name__}:{name}", function))

        after_import({self.module: change})
        after_import_below(self.package, wrap)

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        module = sys.modules.get(self.module)
        if module is None:
            return None
        held: list[Held] = [(vars(module), f"{self.module}:{self.attribute}", getattr(module, self.attribute))]
        for importer in imported_below(self.package).values():
            held += [(vars(importer), f"{importer.__name__}:{name}", value) for name, value in self.functions(importer)]
        return if_held(held)

    def functions(self, module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
        """The functions of a module that keep what they compile in the mapping, with their names."""
        for name, value in list(vars(module).items()):
            own = isinstance(value, FunctionType) and value.__module__ == module.__name__ != self.module
            if own and self.lookup in value.__code__.co_names:
                yield name, value

    def holds(self, path: str) -> bool:
        """Whether the function of a path, ``module:name``, keeps what it compiles here."""
        module, _, name = path.partition(":")
        return is_below(module, self.package) and name in dict(self.functions(importlib.import_module(module)))

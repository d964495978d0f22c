"""The seam that names the modules which a library uses only to compile or to tune."""

from __future__ import annotations

from precast.attach.deferred.module import Deferral, defer
from precast.attach.library import KernelSource, Library, Seam


class DeferredModules(Seam):
    """Modules that a library imports and uses only to compile or to tune: each is executed at its first use.

    A module that is imported before stays as it is. In a recording nothing is deferred.
    """

    modules: tuple[str, ...]

    def install(self, attachment: KernelSource, library: Library) -> None:
        for module in () if attachment.recording else self.modules:
            defer(Deferral(module))

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """Never too late: a kernel is served the same with or without it."""
        return None

"""Pinned packages: other projects whose kernels are compiled unchanged, each pinned to the version that is supported.

An adapter states what it relies on: the distribution, its version, and the names of the parameters of each function
that it calls. Where one of these differs, the error names it, before anything is compiled.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.errors import PrecastError


class PackageError(PrecastError, ImportError):
    """A library is missing, has an unsupported version, or has changed what its adapter relies on."""

    code = "PCK06"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPackage:
    """One package. ``extra`` is the extra of precast that installs it.

    >>> PinnedPackage(distribution="nosuch", version="1.0", extra="nosuch").obstacle()
    "nosuch 1.0 is not installed: pip install 'precast[nosuch]'"
    """

    distribution: str
    version: str
    extra: str

    def obstacle(self) -> str | None:
        """Why nothing of it can be compiled here, or None. Asked while planning: nothing is imported."""
        try:
            installed = version(self.distribution)
        except PackageNotFoundError:
            installed = ""
        if installed == self.version:
            return None
        what = f"is not installed: pip install 'precast[{self.extra}]'"
        if installed:
            what = f"is the version that this adapter supports, and {installed} is installed: pip install '{self}'"
        return f"{self.distribution} {self.version} {what}"

    def module(self, name: str) -> Any:
        """Import one of its modules, in a worker."""
        reason = self.obstacle()
        if reason:
            raise PackageError(reason)
        return importlib.import_module(name)

    def switch(self, module: str, **values: Any) -> None:
        """Set variables of one of its modules; a name that the module does not have is an error."""
        library = self.module(module)
        for name, value in values.items():
            if not hasattr(library, name):
                raise PackageError(
                    f"{module} has no {name}, which its adapter sets: pip install '{self}', or correct the adapter"
                )
            setattr(library, name, value)

    @contextlib.contextmanager
    def replaced(self, module: str, **values: Any) -> Iterator[None]:
        """Inside, variables of one of its modules have other values."""
        library = self.module(module)
        before = {name: getattr(library, name, None) for name in values}
        self.switch(module, **values)
        try:
            yield
        finally:
            self.switch(module, **before)

    def call(self, source: str, /, **arguments: Any) -> Any:
        """Call one of its functions by ``module:function``, without the caches around it: each call compiles."""
        reference = FunctionRef.parse(source)
        self.module(reference.module)
        function = inspect.unwrap(load(reference))
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError as error:
            takes = ", ".join(inspect.signature(function).parameters)
            raise PackageError(
                f"{source} no longer takes what its adapter passes ({error}); it takes ({takes}): "
                f"pip install '{self}', or correct the adapter"
            ) from None
        return function(**arguments)

    def __str__(self) -> str:
        return f"{self.distribution}=={self.version}"

"""PinnedPackage: libraries whose own kernels are compiled as they are, each pinned to the version that its adapter knows.

An adapter states what it relies on: the distribution, its version, and, by name, the parameters of each function that
it calls. Where one of these is not as stated, the message says which, before anything is compiled on a wrong guess.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.errors import PrecastError


class PackageError(PrecastError, ImportError):
    """A library is missing, is another version than its adapter knows, or has changed what the adapter relies on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPackage:
    """One library. ``extra`` installs it.

    >>> PinnedPackage(distribution="nosuch", version="1.0", extra="nosuch").obstacle()
    "nosuch 1.0 is not installed: pip install 'precast[nosuch]'"
    """

    distribution: str
    version: str
    extra: str

    def obstacle(self) -> str | None:
        """Why nothing of it can be compiled here, or None. Asked while planning: nothing is imported."""
        try:
            found = version(self.distribution)
        except PackageNotFoundError:
            found = ""
        if found == self.version:
            return None
        what = f"is not installed: pip install 'precast[{self.extra}]'"
        if found:
            what = f"is what this adapter knows, and {found} is installed: pip install '{self}'"
        return f"{self.distribution} {self.version} {what}"

    def module(self, name: str) -> Any:
        """Import one of its modules, in a worker."""
        reason = self.obstacle()
        if reason:
            raise PackageError(reason)
        return importlib.import_module(name)

    def switch(self, module: str, **values: Any) -> None:
        """Set variables of one of its modules; a name that it does not have is refused."""
        found = self.module(module)
        for name, value in values.items():
            if not hasattr(found, name):
                raise PackageError(
                    f"{module} has no {name}, which its adapter sets: pip install '{self}', or mend the adapter"
                )
            setattr(found, name, value)

    def call(self, source: str, /, **arguments: Any) -> Any:
        """Call one of its functions by ``module:function``, past its caches: each call compiles."""
        place = FunctionRef.parse(source)
        self.module(place.module)
        function = inspect.unwrap(load(place))
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError as error:
            takes = ", ".join(inspect.signature(function).parameters)
            raise PackageError(
                f"{source} is called as its adapter knows it, and {error}; it takes ({takes}): "
                f"pip install '{self}', or mend the adapter"
            ) from None
        return function(**arguments)

    def __str__(self) -> str:
        return f"{self.distribution}=={self.version}"

"""Interpreters: a Python and what it imports from. Child processes run in one, and what they import is found for it.

Usually it is the Python that runs the build. A manifest with ``toolchain:`` has one of its own, which shares nothing
with this one but precast's code.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from precast.build.errors import ToolError

# What lets a Python import more than its own environment holds. That of a toolchain gets none of them.
FROM_OUTSIDE = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV",
    "CONDA_PREFIX",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python: the program, its version, and the folder of its standard library.

    ``path`` has the folders that an isolated one imports from, in their order; None stands for this process's own.
    ``precast`` is the folder from which it imports precast. ``lock`` is the digest of what is installed there, and
    ``locked`` the version of each distribution; empty for the Python that runs the build, which may change any time.
    """

    executable: str
    version: str
    standard: str
    path: tuple[str, ...] | None = None
    precast: str = ""
    lock: str = ""
    locked: tuple[tuple[str, str], ...] = ()

    @property
    def isolated(self) -> bool:
        """Whether it imports nothing of what this process imports."""
        return self.path is not None

    @property
    def folders(self) -> tuple[str, ...]:
        """What it searches for modules, after the folders that a manifest names."""
        return tuple(filter(None, sys.path)) if self.path is None else self.path

    def distribution(self, name: str) -> metadata.Distribution:
        """A distribution that is installed there; raises ToolError.

        >>> HERE.distribution("PyYAML").metadata["Name"]
        'PyYAML'
        """
        try:
            found = metadata.distribution(name) if self.path is None else next(self._discovered(name=name), None)
        except metadata.PackageNotFoundError:
            found = None
        if found is not None:
            return found
        todo = f"add it to the toolchain's requirements, or to its lock: {self.executable} has none"
        raise ToolError(f"{name} is not installed: {todo if self.isolated else 'pip install precast brings it'}")

    def version_of(self, name: str) -> str:
        """The version of a distribution, or '' where it is not installed."""
        try:
            return self.distribution(name).version
        except ToolError:
            return ""

    def distributions(self) -> Iterator[metadata.Distribution]:
        """Every distribution that is installed there; of several with one name, the first is the one that counts."""
        return iter(metadata.distributions()) if self.path is None else self._discovered()

    def entry_points(self, group: str) -> tuple[metadata.EntryPoint, ...]:
        """The entry points of a group.

        >>> "rmsnorm" in {point.name for point in HERE.entry_points("precast.kernels")}
        True
        """
        if self.path is None:
            return tuple(metadata.entry_points(group=group))
        seen: dict[str, metadata.Distribution] = {}
        for one in self._discovered():
            seen.setdefault(one.name, one)
        return tuple(point for one in seen.values() for point in one.entry_points if point.group == group)

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables that a process of it inherits: for an isolated one none that adds to what it imports.

        >>> HERE.environment({"PYTHONPATH": "/x"})
        {'PYTHONPATH': '/x'}
        """
        if self.path is None:
            return dict(inherited)
        kept = {name: value for name, value in inherited.items() if name not in FROM_OUTSIDE}
        return {**kept, "PYTHONPATH": self.precast, "PYTHONNOUSERSITE": "1"}

    def _discovered(self, **wanted: Any) -> Iterator[metadata.Distribution]:
        return iter(metadata.Distribution.discover(path=list(self.path or ()), **wanted))


HERE = Interpreter(
    executable=sys.executable,
    version=f"{platform.python_implementation()} {'.'.join(map(str, sys.version_info[:3]))}",
    standard=os.path.dirname(os.path.abspath(os.__file__)),
)
"""The Python that runs the build."""

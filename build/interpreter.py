"""Interpreters: a Python with the folders that it imports from. Child processes run in one.

Usually it is the Python that runs the build. A manifest with ``toolchain:`` has its own, which shares nothing with this
one but precast's code.
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

# Variables that let a Python import more than its own environment has. That of a toolchain gets none of them.
FROM_OUTSIDE = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV",
    "CONDA_PREFIX",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python: the program, its version, and the folder of its standard library.

    ``path`` has the folders that an isolated one imports from, in their order; None stands for this process's own.
    ``precast`` is the folder from which it imports precast. ``lock`` is the digest of the installed distributions, and
    ``locked`` their versions; empty for the Python that runs the build, which may change any time.
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
        """Whether it shares no packages with this process."""
        return self.path is not None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that it searches for modules, after those of a manifest."""
        return tuple(filter(None, sys.path)) if self.path is None else self.path

    def distribution(self, name: str) -> metadata.Distribution:
        """An installed distribution; raises ToolError.

        >>> HERE.distribution("PyYAML").metadata["Name"]
        'PyYAML'
        """
        try:
            distribution = metadata.distribution(name) if self.path is None else next(self._discovered(name=name), None)
        except metadata.PackageNotFoundError:
            distribution = None
        if distribution is not None:
            return distribution
        advice = (
            "add it to the toolchain's requirements or lock" if self.isolated else "pip install precast installs it"
        )
        raise ToolError(f"{name} is not installed for {self.executable}: {advice}")

    def version_of(self, name: str) -> str:
        """The version of a distribution, or '' if it is not installed."""
        try:
            return self.distribution(name).version
        except ToolError:
            return ""

    def distributions(self) -> Iterator[metadata.Distribution]:
        """Every installed distribution; of several with one name, the first one counts."""
        return iter(metadata.distributions()) if self.path is None else self._discovered()

    def entry_points(self, group: str) -> tuple[metadata.EntryPoint, ...]:
        """The entry points of a group.

        >>> "rmsnorm" in {point.name for point in HERE.entry_points("precast.kernels")}
        True
        """
        if self.path is None:
            return tuple(metadata.entry_points(group=group))
        seen: dict[str, metadata.Distribution] = {}
        for distribution in self._discovered():
            seen.setdefault(distribution.name, distribution)
        return tuple(
            point for distribution in seen.values() for point in distribution.entry_points if point.group == group
        )

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables that its processes inherit: an isolated one gets none that adds folders to import from.

        >>> HERE.environment({"PYTHONPATH": "/x"})
        {'PYTHONPATH': '/x'}
        """
        if self.path is None:
            return dict(inherited)
        kept = {name: value for name, value in inherited.items() if name not in FROM_OUTSIDE}
        return {**kept, "PYTHONPATH": self.precast, "PYTHONNOUSERSITE": "1"}

    def _discovered(self, **query: Any) -> Iterator[metadata.Distribution]:
        return iter(metadata.Distribution.discover(path=list(self.path or ()), **query))


HERE = Interpreter(
    executable=sys.executable,
    version=f"{platform.python_implementation()} {'.'.join(map(str, sys.version_info[:3]))}",
    standard=os.path.dirname(os.path.abspath(os.__file__)),
)
"""The Python that runs the build."""

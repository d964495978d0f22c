"""The Python that runs the build and its child processes: its version, its standard library, its distributions."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata

from precast.build.errors import ToolError

VERSION = f"{platform.python_implementation()} {'.'.join(map(str, sys.version_info[:3]))}"
STANDARD = os.path.dirname(os.path.abspath(os.__file__))
"""The folder of its standard library."""


def distribution(name: str) -> metadata.Distribution:
    """An installed distribution; raises ToolError.

    >>> distribution("PyYAML").metadata["Name"]
    'PyYAML'
    """
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ToolError(f"{name} is not installed for {sys.executable}: pip install precast installs it") from None


def version_of(name: str) -> str:
    """The version of a distribution, or '' if it is not installed."""
    try:
        return distribution(name).version
    except ToolError:
        return ""


@functools.cache
def distributions_of_packages() -> Mapping[str, list[str]]:
    """The distributions of each package, by its name.

    A worker calls it before it closes a process, in which the lists of files that it takes are absent.

    >>> distributions_of_packages()["yaml"]
    ['PyYAML']
    """
    return metadata.packages_distributions()

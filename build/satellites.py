"""Satellites: distributions that import the builder. The builder reaches them by name, where they are installed."""

from __future__ import annotations

import importlib
from types import ModuleType

from precast.build.errors import ToolError


def satellite(name: str) -> ModuleType:
    """Import a module of a satellite; raises ToolError where its distribution is not installed.

    >>> satellite("precast.attach.library").library_named("quack").package
    'quack'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):  # something that the satellite itself imports
            raise
        distribution = "-".join(name.split(".")[:2])
        from precast.kernels.authoring.extras import installing

        raise ToolError(f"this needs {distribution}, which is not installed: {installing(name)}") from None

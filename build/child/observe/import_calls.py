"""Import calls: whether the code at hand runs because a module is imported."""

from __future__ import annotations

import os
import sys
from types import FrameType

_OBSERVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def in_module_code() -> bool:
    """Whether a module that is being imported runs the code at hand."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def importing() -> bool:
    """Whether the import system itself makes the request, to find or read a module. Data that a package reads through
    its loader counts as a request of the package, as does a listing of installed distributions."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OBSERVE):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename.endswith("importlib/metadata/__init__.py"):
        return frame.f_code.co_name in ("children", "zip_children")
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name in ("get_code", "find_spec", "_fill_cache", "_path_hooks"):
            return True
        frame = frame.f_back
    return False

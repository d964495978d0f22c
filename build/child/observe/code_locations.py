"""Code locations: the file of the code that a frame runs, to decide which code made a request."""

from __future__ import annotations

import os
from types import FrameType

HIDDEN = "<hidden>"  # requests from here are not recorded
SKIP = "<skip>"  # requests from here count for the caller

_STANDARD = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
_OBSERVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_BUILD = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
_OWN = ("precast.attach", "precast.build", "precast.loader", "precast.cli", "precast.manifests")
_AUTHORING = "precast.kernels.authoring"  # it looks for kernels in all installed distributions
_INSTALLED = ("/site-packages/", "/dist-packages/")


def is_installed(path: str) -> bool:
    """Whether a file is in a folder that distributions are installed into.

    >>> is_installed("/usr/lib/python3/dist-packages/yaml/__init__.py"), is_installed("/home/me/kernels/norm.py")
    (True, False)
    """
    return "-packages/" in path and any(part in path for part in _INSTALLED)


def is_standard(path: str) -> bool:
    """Whether a file belongs to the standard library.

    >>> is_standard(os.__file__), is_standard("/home/me/kernels/os.py")
    (True, False)
    """
    return path.startswith(_STANDARD) and not is_installed(path)


def is_own(module: str) -> bool:
    """Whether a module is precast's own code, except for its kernels, which count as an author's."""
    return module == "precast" or any(module == name or module.startswith(f"{name}.") for name in _OWN)


def location_of_code(frame: FrameType) -> str:
    """The file of a frame's code, or HIDDEN or SKIP.

    Generated code has no file of its own: that of its module counts.
    """
    file = frame.f_code.co_filename
    if file.startswith("<"):
        if file.startswith("<frozen "):
            return SKIP
        module_file = frame.f_globals.get("__file__")
        if not isinstance(module_file, str):
            return SKIP
        file = module_file
    file = os.path.abspath(file)
    if file.startswith(_OBSERVE):
        return SKIP
    module = str(frame.f_globals.get("__name__", ""))
    if file.startswith(_BUILD) or is_own(module) or module.startswith(_AUTHORING):
        return HIDDEN
    if is_standard(file):
        return HIDDEN if frame.f_code.co_name == "<module>" or file.endswith("/tempfile.py") else SKIP
    return file

"""Code locations: whose code a file or a module is, to decide whose request something is."""

from __future__ import annotations

import os

_STANDARD = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
_OWN = (
    "precast.attach.builder",
    "precast.build",
    "precast.loader",
    "precast.cli",
    "precast.manifests",
    "precast.measure",
    "precast.native",
)
_AUTHORING = "precast.kernels.authoring"
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
    names = (*_OWN, _AUTHORING)
    return module == "precast" or any(module == name or module.startswith(f"{name}.") for name in names)

"""The errors of what publishes caches."""

from __future__ import annotations

from precast.loader.errors import PrecastError


class BundleError(PrecastError):
    """The wheels of a bundle cannot be collected."""

    code = "PCB11"


class PushError(PrecastError):
    """A cache cannot be pushed."""

    code = "PCB21"


class RemoteError(PrecastError):
    """The address of a remote cache cannot be used."""

    code = "PCB14"

"""The remote cache as a store uses it: records that many machines share."""

from __future__ import annotations

from typing import Protocol

LIMIT = 256 << 20  # bytes of one file; records have less than a hundredth of that


class Remote(Protocol):
    """Files by name. ``precast.publish.remote`` has the one that a build gets. It only saves work: it never raises.

    A file that it has may be damaged, or anything else: a store checks it like its own.
    """

    read_only: bool

    def fetch(self, name: str) -> bytes | None:
        """A file, or None; raises FormatError for one that is too large."""

    def names(self) -> frozenset[str] | None:
        """The names of all files, or None where they are not known."""

    def send(self, name: str, data: bytes) -> None:
        """Send a file, without waiting for it to arrive."""

    def finish(self) -> None:
        """Wait for the files that are being sent."""

"""File states: the state of each file when it was read first, so that a later change is noticed."""

from __future__ import annotations

from contextlib import suppress

from precast.build.child.observe.code_locations import is_installed, is_standard
from precast.build.errors import ChangedInputError
from precast.build.inputs.contents import SMALL, hash_file
from precast.build.inputs.stamp import Stamp, stamp_of

MOST = 100_000


class FileStates:
    """Stamps of files, and digests of the small ones of authors.

    >>> states = FileStates()
    >>> states.add("/proc/nowhere")
    >>> states.stamps, states.digests
    ({'/proc/nowhere': None}, {})
    """

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp | None] = {}
        self.digests: dict[str, str] = {}

    def add(self, name: str, read: Stamp | None = None) -> None:
        """A file is read now; or native code has ``read`` it in this state, some time ago."""
        if name in self.stamps or len(self.stamps) >= MOST:
            return
        now = stamp_of(name)
        stamp = self.stamps[name] = read or now
        if stamp is not None and stamp == now and stamp[1] < SMALL and not is_installed(name) and not is_standard(name):
            with suppress(ChangedInputError):
                self.digests[name] = hash_file(name) or ""

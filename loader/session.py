"""What this process has loaded so far, and whether it may load more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from precast.loader.errors import Frozen
from precast.loader.fast_start.values import Immutable
from precast.loader.fork_safe import ForkSafeLock


class Stats(Immutable, kw_only=True):
    """Counts since this process started. A ``get`` that was asked before is not counted: it costs a microsecond.

    ``lookups`` are requests that were resolved, ``misses`` those of them that found nothing to load; ``loads`` are
    kernels that were opened, and ``stored`` the bytes that were read for them; ``seconds`` went into all of it.
    """

    lookups: int = 0
    misses: int = 0
    loads: int = 0
    stored: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.loads} kernels loaded ({self.stored} bytes) in {self.lookups} lookups, {self.misses} of them"
            f" misses, {self.seconds * 1e3:.1f} ms in all"
        )


_counts: list[Any] = [0, 0, 0, 0, 0.0]
_frozen = False
_lock = ForkSafeLock()


def stats() -> Stats:
    """Count what this process has loaded so far.

    Examples
    --------
    >>> from precast import loader
    >>> before = loader.stats().loads
    >>> kernel = loader.get("twice", target="sm_90a")
    >>> loader.stats().loads - before <= 1
    True

    See also: ``preload``, ``freeze``.
    """
    with _lock:
        lookups, misses, loads, stored, seconds = _counts
    return Stats(lookups=lookups, misses=misses, loads=loads, stored=stored, seconds=seconds)


def freeze(frozen: bool = True) -> None:
    """Make any later load an error (``loader.Frozen``), for those who promise no surprises after start-up.

    Parameters
    ----------
    frozen
        False lifts it again.

    Examples
    --------
    >>> from precast import loader
    >>> done = loader.preload([("scale", {"dtype": "float32"})], target="sm_90a")
    >>> loader.freeze()
    >>> loader.get("scale", {"dtype": "float32"}, target="sm_90a").op  # loaded before
    'scale'
    >>> loader.freeze(False)

    See also: ``preload``, ``stats``.
    """
    global _frozen
    _frozen = frozen


def check_thawed(what: Callable[[], str]) -> None:
    """Refuse to load a kernel in a frozen process; ``what`` says which one."""
    if _frozen:
        raise Frozen(f"{what()} is not loaded, and loader.freeze() was called: preload it before, or do not freeze")


def count(*, lookups: int = 0, misses: int = 0, loads: int = 0, stored: int = 0, seconds: float = 0.0) -> None:
    """Add to the counts."""
    with _lock:
        for place, more in enumerate((lookups, misses, loads, stored, seconds)):
            _counts[place] += more

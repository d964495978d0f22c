"""Pins: the digests that the index of each cache must have. The index holds the digests of everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from precast.loader.contract.format.patterns import CACHE_NAME, SHA256
from precast.loader.errors import ConfigError

_LIMIT = 1 << 20

Pins = Mapping[str, frozenset[str]]


def read_pins(text: str) -> Pins | None:
    """Parse ``PRECAST_PIN``: ``name=sha256`` items, or the path of a file with such items; None where it is empty.

    A name may occur several times, while an old and a new cache of that name are in use. What cannot be read is an
    error; it never means "no pins".

    >>> sorted(read_pins("mine=" + "0" * 64 + ",other=" + "1" * 64))
    ['mine', 'other']
    """
    text = text.strip()
    if not text:
        return None
    if "=" not in text:
        text = _file(Path(text))
    return check_pins(item.partition("=")[::2] for line in text.splitlines() for item in _items(line))


def check_pins(pairs: Iterable[tuple[str, str]]) -> Pins:
    """Check pairs of a name and a digest.

    >>> check_pins([("mine", "0" * 63)])
    Traceback (most recent call last):
    precast.loader.errors.ConfigError: 'mine=000000000000...' is not a pin: write NAME=SHA256, the digest of index...
    """
    pins: dict[str, frozenset[str]] = {}
    for name, digest in pairs:
        if not (
            isinstance(name, str) and isinstance(digest, str) and CACHE_NAME.admits(name) and SHA256.admits(digest)
        ):
            pin = f"{name}={str(digest)[:12]}..."[:120]
            raise ConfigError(f"{pin!r} is not a pin: write NAME=SHA256, the digest of index.json")
        pins[name] = pins.get(name, frozenset()) | {digest}
    if not pins:
        raise ConfigError("the list of pins is empty: write NAME=SHA256, or unset it")
    return pins


def refusal(name: str, digest: str, pins: Pins) -> str | None:
    """Why the pins do not allow an index of this name and digest, or None."""
    if digest in pins.get(name, ()):
        return None
    if name not in pins:
        return f"no pin names the cache {name!r}: pin {name}={digest} if you trust it"
    return (
        f"the index of cache {name!r} has the digest {digest[:16]}..., which is not the one that is pinned:"
        " reinstall the cache that was pinned, or pin the new one if you trust it"
    )


def _items(line: str) -> list[str]:
    """The items of a line; ``#`` begins a comment."""
    return line.partition("#")[0].replace(",", " ").split()


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise ConfigError(f"PRECAST_PIN names {path}, which is larger than a list of pins: name another file")
        return data.decode("ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"PRECAST_PIN names {path}, which cannot be read as pins ({error}): write NAME=SHA256, or a file of that"
        ) from None

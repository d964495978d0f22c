"""What is signed: the cache in a folder or in a wheel, opened, and checked to the last byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.build.disk.scratch import write_output
from precast.build.wheel.wheel import Wheel
from precast.fetch.trust.bundle import bundle_in
from precast.fetch.trust.policy import Accepted, TrustPolicy, read_named
from precast.loader.resolve.pins import read_pins
from precast.publish.signing.wheel_reader import opened_wheel


@contextmanager
def opened(path: Path) -> Iterator[tuple[Wheel | None, CacheContents]]:
    """The cache in a folder, or that in a wheel with the names of the wheel."""
    if path.suffix == ".whl":
        with opened_wheel(path) as wheel_and_contents:
            yield wheel_and_contents
    else:
        yield None, CacheContents.open(path)


def verify_signature(path: Path, policy: TrustPolicy) -> tuple[CacheContents, Accepted]:
    """Why a policy accepts a cache or a wheel, after every byte was checked. Raises SignatureError if it does not."""
    with opened(path) as (_, contents):
        contents.require_intact()
        bundle = bundle_in(contents.cache.path)
        return contents, policy.accept(contents.index.name, contents.cache.digest, () if bundle is None else (bundle,))


def add_pin(path: Path, pin: str) -> bool:
    """Add a pin to a file that ``PRECAST_PIN`` can name, and return whether it was not there."""
    there = read_named(path).decode("ascii", "replace") if path.exists() else ""
    name, _, sha256 = pin.partition("=")
    if there.strip() and sha256 in (read_pins(str(path)) or {}).get(name, ()):
        return False
    write_output(path, f"{there}{'' if there.endswith(chr(10)) or not there else chr(10)}{pin}\n".encode())
    return True

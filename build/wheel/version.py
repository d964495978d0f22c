"""The version of a cache's wheel: given, or made from the time and the content of the cache."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

from precast.build.errors import WheelError

EPOCH = "SOURCE_DATE_EPOCH"
_DIGITS = 12


def given_version(text: str) -> Version:
    """A version that a user wrote, in normal form.

    >>> str(given_version("1.4-rc1+GB200"))
    '1.4rc1+gb200'
    """
    try:
        return Version(text)
    except InvalidVersion:
        raise WheelError(f"{text!r} is not a version: write it like '1.4.0' or '1.4.0+gb200'") from None


def default_version(seconds: int, digest: str) -> Version:
    """The version for content of a time, in seconds since 1970.

    It is ``0.YYYYMMDD.HHMMSS+DIGEST``, in UTC. pip compares the time first, so that it upgrades to later builds. The
    leading 0 keeps it below any release number that a user may give with ``--version``. The digest of the index
    identifies the content.

    >>> str(default_version(1767571259, "97f7fe1f180b2c"))
    '0.20260105.59+97f7fe1f180b'
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return Version(f"0.{moment:%Y%m%d}.{int(moment.strftime('%H%M%S'))}+{digest[:_DIGITS]}")


def content_time(cache: Path) -> int:
    """The time of a cache's content: ``SOURCE_DATE_EPOCH`` if it is set, otherwise when its index was written.

    A build with nothing to do does not write the index, so that the same cache packed twice has the same version.
    """
    setting = os.environ.get(EPOCH)
    if setting is None:
        return int((cache / "index.json").stat().st_mtime)
    try:
        seconds = int(setting)
        datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise WheelError(f"{EPOCH} is {setting!r}: set it to a number of seconds since 1970, or unset it") from None
    return seconds

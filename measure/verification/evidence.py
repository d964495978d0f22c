"""Evidence that an artifact was verified: on which GPU, with which driver, on which date, as an index keeps it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from precast.loader import current_session
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.errors import ConfigError
from precast.loader.machine.driver import Device, NoDriver
from precast.loader.machine.machine import version
from precast.loader.resolve.cache import Cache

EPOCH = "SOURCE_DATE_EPOCH"
_MODULE = Path("/proc/driver/nvidia/version")
_DRIVER = re.compile(r"\b[0-9]{3,}\.[0-9]+(?:\.[0-9]+)?\b", re.ASCII)


def where_and_when(device: Device, environment: Mapping[str, str]) -> dict[str, Any]:
    """The GPU, its driver and the date: the part that all evidence of one run has."""
    return {
        "gpu": device.name,
        "capability": str(device.capability),
        "driver": driver_version(_text(_MODULE)) or _cuda(),
        "date": date(environment),
    }


class EarlierEvidence:
    """A cache's evidence of artifacts that passed in one way: on one model of GPU, or by one version of the emulator.

    ``alike`` has the fields that such evidence has. Artifacts of different caches, and with different keys, are the
    same if their ops, configs and bytes are.
    """

    def __init__(self, cache: Cache, alike: Mapping[str, Any]) -> None:
        alike = {**alike, "failed": []}
        self._entries = {
            _identity(op, artifact): entry
            for op in cache.index.ops
            for artifact in cache.op(op).artifacts
            for entry in artifact.evidence
            if all(entry.get(name) == value for name, value in alike.items())
        }

    def of(self, op: str, artifact: Artifact) -> Mapping[str, Any] | None:
        """The evidence of an artifact, if there is any."""
        return self._entries.get(_identity(op, artifact))


def _identity(op: str, artifact: Artifact) -> tuple[str, str, str]:
    return op, config_text(artifact.config), artifact.blob.sha256


def _cuda() -> str:
    """The driver's CUDA version, for containers in which the driver's own version cannot be read."""
    try:
        return f"for CUDA {version(current_session().machines.driver.get().version)}"
    except NoDriver:
        return "unknown"


def driver_version(text: str) -> str:
    """The driver's version in the text of its kernel module; empty if there is none.

    >>> driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27")
    '580.65.06'
    """
    match = _DRIVER.search(text)
    return match.group() if match else ""


def date(environment: Mapping[str, str]) -> str:
    """The time of ``SOURCE_DATE_EPOCH`` if that is set, else of the clock, in UTC.

    >>> date({"SOURCE_DATE_EPOCH": "1700000000"})
    '2023-11-14T22:13:20Z'
    """
    seconds = environment.get(EPOCH)
    try:
        moment = datetime.fromtimestamp(time.time() if seconds is None else int(seconds), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{EPOCH} is {seconds!r}: set it to a number of seconds since 1970, or unset it") from None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

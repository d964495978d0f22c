"""Evidence: what was found out about an artifact, where and when, as an index keeps it."""

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
from precast.loader.resolve.evidence import CHECK

EPOCH = "SOURCE_DATE_EPOCH"
_MODULE = Path("/proc/driver/nvidia/version")
_DRIVER = re.compile(r"\b[0-9]{3,}\.[0-9]+(?:\.[0-9]+)?\b", re.ASCII)


def where_and_when(device: Device, environment: Mapping[str, str]) -> dict[str, Any]:
    """The GPU, its driver, and the date, as every entry names them."""
    return {
        "gpu": device.name,
        "capability": str(device.capability),
        "driver": driver_version(_text(_MODULE)) or _cuda(),
        "date": date(environment),
    }


class Known:
    """What a cache knows of artifacts that were verified on a GPU of one name, and not found wrong.

    Another cache may hold the same artifact under another key: it is the same where its config and its bytes are.
    """

    def __init__(self, cache: Cache, gpu: str) -> None:
        self._entries = {
            _place(op, artifact): entry
            for op in cache.index.ops
            for artifact in cache.op(op).artifacts
            for entry in artifact.evidence
            if (entry.get("check"), entry.get("gpu"), entry.get("failed")) == (CHECK, gpu, [])
        }

    def of(self, op: str, artifact: Artifact) -> Mapping[str, Any] | None:
        """The evidence of an artifact; None where there is none."""
        return self._entries.get(_place(op, artifact))


def _place(op: str, artifact: Artifact) -> tuple[str, str, str]:
    return op, config_text(artifact.config), artifact.blob.sha256


def _cuda() -> str:
    """The CUDA that the driver serves, where it does not say its own version, as in some containers."""
    try:
        return f"for CUDA {version(current_session().machines.driver.get().version)}"
    except NoDriver:
        return "unknown"


def driver_version(text: str) -> str:
    """The version of the driver in the text that its kernel module gives; empty where there is none.

    >>> driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27")
    '580.65.06'
    """
    found = _DRIVER.search(text)
    return found.group() if found else ""


def date(environment: Mapping[str, str]) -> str:
    """The time of ``SOURCE_DATE_EPOCH`` where that is set, else of the clock, in UTC.

    >>> date({"SOURCE_DATE_EPOCH": "1700000000"})
    '2023-11-14T22:13:20Z'
    """
    said = environment.get(EPOCH)
    try:
        moment = datetime.fromtimestamp(time.time() if said is None else int(said), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{EPOCH} is {said!r}: set it to a number of seconds since 1970, or unset it") from None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

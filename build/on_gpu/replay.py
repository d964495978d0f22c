"""Replaying a dumped call: its kernel, by the artifact's key, and a process of its own, since the call may end it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import launching_environment
from precast.build.ipc.message import Message
from precast.loader import current_session
from precast.loader.contract.diagnostics.dump import Dump
from precast.loader.errors import ConfigError, NoCudaDevice
from precast.loader.machine.driver import NoDriver
from precast.loader.resolve.cache import Cache


def find_cache(dump: Dump, path: Path | None) -> Cache:
    """The cache that holds the kernel of a dump: the one at a path, or one that is found, by the artifact's key."""
    caches = [Cache(path)] if path else [entry.cache for entry in current_session().caches() if entry.cache]
    holders = [
        cache
        for cache in caches
        if dump.op in cache.index.ops and any(entry.key == dump.key for entry in cache.op(dump.op).artifacts)
    ]
    if not holders:
        where = f"{path} does not hold" if path else "none of the caches that are found here holds"
        raise ConfigError(
            f"{where} the kernel {dump.key[:12]} of op {dump.op!r}: give --cache CACHE, the one that the program had"
            f" ({dump.cache[:80]!r}, index {dump.digest[:12]})"
        )
    return next((cache for cache in holders if cache.digest == dump.digest), holders[0])


def check_device(dump: Dump) -> None:
    """Refuse a call on a GPU where there is none."""
    if dump.on_host:
        return
    try:
        current_session().machines.driver.find()
    except NoDriver as reason:
        raise NoCudaDevice(
            f"there is no CUDA device to make the call on: {reason}. Run this where there is one"
        ) from None


def notes_of(dump: Dump, cache: Cache) -> list[str]:
    """What is not as it was when the call was dumped."""
    notes = [
        f"memory-{number} ({block.size} bytes) was left out, and is zeros here: {block.left_out}"
        for number, block in enumerate(dump.blocks)
        if block.left_out
    ]
    if cache.digest != dump.digest:
        notes.append(f"cache {cache.name!r} is not the one that the program had; the artifact's key is the same")
    return notes


def replayed(folder: Path, cache: Cache, timeout: float) -> dict[str, Any]:
    """How the process ended that made the call: with outputs, with an error, or not by itself."""
    environment = launching_environment(os.environ)
    failed: dict[str, Any] = {"ended": False, "outputs": []}
    try:
        with ChildProcess(
            "on_gpu.replay_main", name="replaying process", settings={}, environment=environment
        ) as child:
            child.send(Message({"call": str(folder), "cache": str(cache.path.absolute())}))
            reply = child.receive(timeout).header
    except ChildLost as lost:
        return {**failed, "error": str(lost), "printed": lost.output.strip()[-2000:]}
    if "error" in reply:
        return {**failed, "error": str(reply["error"])}
    return {"ended": True, "outputs": list(reply["outputs"]), "unknown": str(reply.get("unknown", ""))}

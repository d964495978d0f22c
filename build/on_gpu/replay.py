"""Replaying a dumped call: finds its kernel by the artifact's key, and calls it in a separate process."""

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
    """The cache with the kernel of a dump, by the artifact's key: the one at a path, or any installed one."""
    caches = [Cache(path)] if path else [entry.cache for entry in current_session().caches() if entry.cache]
    holders = [
        cache
        for cache in caches
        if dump.op in cache.index.ops and any(entry.key == dump.key for entry in cache.op(dump.op).artifacts)
    ]
    if not holders:
        where = f"{path} does not have" if path else "no installed cache has"
        raise ConfigError(
            f"{where} the kernel {dump.key[:12]} of op {dump.op!r}: give the program's cache with --cache"
            f" ({dump.cache[:80]!r}, index {dump.digest[:12]})"
        )
    return next((cache for cache in holders if cache.digest == dump.digest), holders[0])


def check_device(dump: Dump) -> None:
    """Raise NoCudaDevice for a call on a GPU if there is none."""
    if dump.on_host:
        return
    try:
        current_session().machines.driver.find()
    except NoDriver as reason:
        raise NoCudaDevice(
            f"there is no CUDA device to make the call on: {reason}. Run this where there is one"
        ) from None


def notes_of(dump: Dump, cache: Cache) -> list[str]:
    """The differences from the state in which the call was dumped."""
    notes = [
        f"memory-{number} ({block.size} bytes) was left out of the dump, and is zeros here: {block.left_out}"
        for number, block in enumerate(dump.blocks)
        if block.left_out
    ]
    if cache.digest != dump.digest:
        notes.append(f"cache {cache.name!r} is not the one that the program had; the artifact's key is the same")
    return notes


def replayed(folder: Path, cache: Cache, timeout: float) -> dict[str, Any]:
    """The result of the process that made the call: outputs, or an error, or how it was ended."""
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

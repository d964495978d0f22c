"""Make a dumped call again, in a process of its own, and compare what it writes with its reference.

A service that runs with PRECAST_DUMP=DIR writes each call there before it launches it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.output import emit

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache
    from precast.loader.watch.dump import Dump

_WATCHING = ("PRECAST_LOG", "PRECAST_DUMP", "PRECAST_REQUESTS")


def command(
    call: Annotated[
        Path, typer.Argument(metavar="DIR", help="A dumped call, or the folder of a process: then its last call.")
    ],
    cache: Annotated[
        Path | None, typer.Option("--cache", help="The cache that holds the kernel; those that are found, if none.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="The seconds that the call may take.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make a dumped call again, in a process of its own, and compare what it writes with its reference.

    Exit status 0: the call ended, and nothing is wrong. 1: it crashed, failed or hung, or an output is wrong.
    """
    from precast.loader.watch.dump_folder import find_call, read_dump

    folder = find_call(call).absolute()
    dump = read_dump(folder)
    held = find_cache(dump, cache)
    check_device(dump)
    result: dict[str, Any] = {
        "call": str(folder),
        "op": dump.op,
        "key": dump.key,
        "cache": str(held.path),
        "notes": notes_of(dump, held),
        **_replayed(folder, held, timeout),
    }
    emit(result, render(dump, result), as_json)
    if not result["ended"] or any(one["wrong"] for one in result["outputs"]):
        raise typer.Exit(1)


def find_cache(dump: Dump, path: Path | None) -> Cache:
    """The cache that holds the kernel of a dump: the one at a path, or one that is found, by the artifact's key."""
    from precast.loader import session
    from precast.loader.errors import ConfigError
    from precast.loader.resolve.cache import Cache

    caches = [Cache(path)] if path else [found.cache for found in session.default.caches() if found.cache]
    holders = [
        one
        for one in caches
        if dump.op in one.index.ops and any(found.key == dump.key for found in one.op(dump.op).artifacts)
    ]
    if not holders:
        where = f"{path} does not hold" if path else "none of the caches that are found here holds"
        raise ConfigError(
            f"{where} the kernel {dump.key[:12]} of op {dump.op!r}: give --cache CACHE, the one that the program had"
            f" ({dump.cache[:80]!r}, index {dump.digest[:12]})"
        )
    return next((one for one in holders if one.digest == dump.digest), holders[0])


def check_device(dump: Dump) -> None:
    """Refuse a call on a GPU where there is none."""
    from precast.loader import session
    from precast.loader.errors import NoCudaDevice
    from precast.loader.resolve.driver import NoDriver

    if dump.on_host:
        return
    try:
        session.default.machines.driver.find()
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


def _replayed(folder: Path, cache: Cache, timeout: float) -> dict[str, Any]:
    """How the process ended that made the call: with outputs, with an error, or not by itself."""
    from precast.build.ipc.child_process import ChildLost, ChildProcess
    from precast.build.ipc.environment import child_environment
    from precast.build.ipc.message import Message

    base = {name: value for name, value in os.environ.items() if name not in _WATCHING}
    environment = child_environment(base, gpu=True)
    failed: dict[str, Any] = {"ended": False, "outputs": []}
    try:
        with ChildProcess("replay_main", name="replaying process", settings={}, environment=environment) as child:
            child.send(Message({"call": str(folder), "cache": str(cache.path.absolute())}))
            reply = child.receive(timeout).header
    except ChildLost as lost:
        return {**failed, "error": str(lost), "printed": lost.output.strip()[-2000:]}
    if "error" in reply:
        return {**failed, "error": str(reply["error"])}
    return {"ended": True, "outputs": list(reply["outputs"]), "unknown": str(reply.get("unknown", ""))}


def render(dump: Dump, result: dict[str, Any]) -> str:
    """The result as text."""
    from precast.loader.format.config import config_text

    lines = [f"{dump.op} {config_text(dump.config)} for {dump.target}, call {dump.number} of process {dump.process}"]
    lines += [f"note: {note}" for note in result["notes"]]
    if not result["ended"]:
        lines.append(f"the call did not end: {result['error']}")
        return "\n".join([*lines, *([f"it last printed: {result['printed']}"] if result.get("printed") else [])])
    lines.append("the call ended")
    if result["unknown"]:
        lines.append(f"note: {result['unknown']}")
    if not result["outputs"]:
        lines.append("note: neither the signature nor a declaration says what the kernel writes: nothing was compared")
    for one in result["outputs"]:
        lines.append(f"{'wrong' if one['wrong'] else 'output'}: {one['name']}: {one['reference']}; {one['later']}")
    return "\n".join(lines)

"""File names: the files in which the installed libraries would keep the kernels of keys, for a target."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from precast.build.gpu.profile import profile_of
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.errors import FormatError

_SECONDS, _SECONDS_EACH = 300.0, 1.0
_MEMORY = 16 << 30
_MOST = 10_000
# Where libraries keep their caches on disk: the process must have them, and must not read those of the user.
_SWITCHES = {"FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1"}
_FOLDERS = ("FLASH_ATTENTION_CUTE_DSL_CACHE_DIR", "QUACK_CACHE_DIR", "SGLANG_CUTE_AOT_CACHE_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """One file of a library's cache, as ``precast.kernels.adapters.disk_caches`` names it."""

    folders: tuple[str, ...]
    name: str
    meta: dict[str, str] | None

    @classmethod
    def parse(cls, value: object) -> FileName:
        """The file that a reply has."""
        data = fields.as_object(value)
        meta = data.get("meta")
        return cls(
            folders=fields.items(data, "folders", fields.text, most=16),
            name=fields.get(data, "name", str),
            meta=None if meta is None else fields.table(data, "meta", fields.text, most=16),
        )


@dataclass(frozen=True, slots=True)
class NoFileName:
    """Why the files of a key have no names."""

    reason: str


def file_names(keys: Sequence[Recorded], target: Target) -> list[tuple[FileName, ...] | NoFileName]:
    """The files of each key, from a process that imports the libraries; raises ChildLost."""
    if not keys:
        return []
    with tempfile.TemporaryDirectory(prefix="precast-") as root:
        env = {**_SWITCHES, **dict.fromkeys(_FOLDERS, root)}
        environment = child_environment(os.environ, target=target, env=env)
        del environment["CUTE_DSL_ARCH"]  # as where the caches were written: SGLang would name other files
        with ChildProcess(
            "disk_names_main",
            name="process that names the files of keys",
            settings={"profile": profile_of(target).to_json(), "root": root},
            environment=environment,
            memory=_MEMORY,  # the arguments in hostile names may be large
        ) as child:
            child.send(Message({"keys": [key.to_json() for key in keys]}))
            rows = child.receive(_SECONDS + _SECONDS_EACH * len(keys)).header.get("rows")
    if not isinstance(rows, list) or len(rows) != len(keys):
        raise FormatError("the process that names the files of keys sent an invalid reply: report this")
    return [_row(row) for row in rows]


def _row(value: Any) -> tuple[FileName, ...] | NoFileName:
    data = fields.as_object(value)
    if "error" in data:
        return NoFileName(fields.get(data, "error", str))
    return fields.items(data, "files", FileName.parse, most=_MOST)

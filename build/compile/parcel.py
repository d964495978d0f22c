"""Parcels: variants packed for compilation on another machine, which shares no disk with this one.

A parcel is one message: the request to a worker process, and the source files of the user's own modules. It also has
the versions that the other machine must have installed, so that both machines compile the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from precast.build.compile.outcome import request_for
from precast.build.errors import ClusterError
from precast.build.gpu.profile import Profile, parse_facts
from precast.build.inputs.roots import Roots
from precast.build.inputs.sources import SourceDigests, source_digest
from precast.build.interpreter import version_of
from precast.build.ipc.message import Message
from precast.build.link.toolchain import find_cuda
from precast.build.link.versions import DSL
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.kernels.authoring.adapter import adapter_sources
from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError

_FILES = 60  # a message holds 64 attachments; a kernel with more files belongs in a distribution
_COMPILING = ("precast.build.child.worker_main:main", "precast.kernels.authoring.registry:load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A parcel as the compiling machine reads it. The keys of ``files``: the number of a search folder, and a path."""

    target: Target
    env: Mapping[str, str]
    profile: Profile
    request: Mapping[str, Any]
    seconds: float
    like: Mapping[str, str]
    digest: str
    folders: int
    files: Mapping[tuple[int, str], bytes]

    @property
    def group(self) -> tuple[object, ...]:
        """The parcels of one group can be compiled by the same worker process."""
        files = tuple(sorted((name, hashlib.sha256(data).digest()) for name, data in self.files.items()))
        facts = tuple((name, fact.value) for name, fact in sorted(self.profile.facts.items()))
        return self.target, tuple(sorted(self.env.items())), self.profile.name, facts, self.folders, files

    def encode(self) -> bytes:
        """The parcel as bytes."""
        names = sorted(self.files)
        header = {
            "target": str(self.target),
            "env": dict(self.env),
            "profile": self.profile.to_json(),
            "request": dict(self.request),
            "seconds": self.seconds,
            "like": dict(self.like),
            "digest": self.digest,
            "folders": self.folders,
            "files": [[number, path, hashlib.sha256(self.files[number, path]).hexdigest()] for number, path in names],
        }
        return Message(header, tuple(self.files[name] for name in names)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Parcel:
        """Read a parcel. A file that was changed, or whose path leaves its folder, is refused."""
        message = Message.decode(data)
        header = message.header
        folders = fields.count(header, "folders", most=1000)
        listed = fields.items(header, "files", _parse_file, most=_FILES)
        if len(listed) != len(message.parts):
            raise FormatError(f"{len(message.parts)} files, not {len(listed)}", "files")
        files = {}
        for (number, path, digest), content in zip(listed, message.parts, strict=True):
            if number >= folders or hashlib.sha256(content).hexdigest() != digest:
                raise FormatError(f"{path} was changed during the transfer", "files")
            files[number, path] = content
        target = fields.parsed(header, "target", Target.parse)
        profile = fields.parsed(header, "profile", fields.as_object)
        return cls(
            target=target,
            profile=Profile(
                name=fields.get(profile, "name", str),
                capability=target.capability,
                facts=fields.parsed(profile, "facts", lambda value: parse_facts(value, "the sending build")),
            ),
            env=fields.table(header, "env", fields.text, most=1000),
            request=fields.parsed(header, "request", fields.as_object),
            seconds=fields.get(header, "seconds", float),
            like=fields.table(header, "like", fields.text, most=100),
            digest=fields.get(header, "digest", str),
            folders=folders,
            files=files,
        )

    def unpack(self, folder: Path) -> list[Path]:
        """Write the files below a folder, and return the search folders."""
        search = [folder / str(number) for number in range(self.folders)]
        for search_folder in search:
            search_folder.mkdir()
        for (number, path), content in self.files.items():
            target = search[number] / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return search

    def unlike(self, search: Sequence[Path]) -> list[str]:
        """The differences between this machine and the one that sent the parcel, a line each."""
        lines = differences(self.like, this_builder())
        source = fields.get(self.request, "source", str)
        if not lines and source_digest(source, search) != self.digest:
            lines.append(f"the code of {source.partition(':')[0]} differs: install the same version on both machines")
        return lines


def parcel_for(variant: Variant, plan: Plan, seconds: float, *, twice: bool = False) -> Parcel:
    """Pack a variant, with the sources and the declared files that are in the search folders."""
    folders = [folder.resolve() for folder in plan.search]
    files: dict[tuple[int, str], bytes] = {}
    for file in (*_sources(plan.search).files(variant.source), *_declared_files(variant, plan)):
        number = next(n for n, folder in enumerate(folders) if file.is_relative_to(folder))
        files[number, file.relative_to(folders[number]).as_posix()] = file.read_bytes()
    if len(files) > _FILES:
        raise ClusterError(
            f"{variant.source} needs {len(files)} files of its search folders, and a parcel has at most {_FILES}: "
            "make a distribution of them and install it on the cluster"
        )
    return Parcel(
        target=variant.target,
        env=dict(variant.env),
        profile=plan.profiles.of(variant.target, variant.profile),
        request=request_for(variant, seconds, twice=twice),
        seconds=seconds,
        like=this_builder(),
        digest=_sources(plan.search).digest(variant.source),
        folders=len(folders),
        files=files,
    )


def _declared_files(variant: Variant, plan: Plan) -> Iterator[Path]:
    roots = Roots.here(plan.search)
    for name in variant.inputs:
        kind, _, rest = name.partition(":")
        if kind not in ("file", "folder"):
            continue
        path = Path(roots.path_of(rest) or rest).resolve()
        if not any(path.is_relative_to(folder.resolve()) for folder in plan.search):
            raise ClusterError(
                f"{path} is declared, and is in no folder of 'path:': move it there, so that it can be sent"
            )
        yield from (file for file in ([path] if kind == "file" else sorted(path.rglob("*"))) if file.is_file())


@functools.lru_cache(maxsize=1)
def _sources(search: tuple[Path, ...]) -> SourceDigests:
    """The sources of the sending build, read once: all its parcels have the same state of the files."""
    return SourceDigests(search)


@functools.cache
def this_builder() -> dict[str, str]:
    """The versions on this machine that affect compiled bytes.

    >>> this_builder()["nvidia-cutlass-dsl"]
    '4.8.1'
    """
    adapters = {value for _, value in adapter_sources()}
    return {
        "host": platform.machine(),
        "CUDA": str(find_cuda()),
        **{name: version_of(name) for name in (DSL, "apache-tvm-ffi", "precast")},
        **{f"code of {name.partition(':')[0]}": source_digest(name, ()) for name in (*_COMPILING, *sorted(adapters))},
    }


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """The differences between two builders, a line each.

    >>> differences({"host": "x86_64"}, {"host": "aarch64"})
    ['host is x86_64 here and aarch64 there']
    """
    names = sorted({*here, *there})
    return [
        f"{n} is {_short(here.get(n))} here and {_short(there.get(n))} there"
        for n in names
        if here.get(n) != there.get(n)
    ]


def _short(fact: str | None) -> str:
    return "missing" if not fact else fact[:12] if len(fact) == 64 else fact


def _parse_file(value: object) -> tuple[int, str, str]:
    match value:
        case [int(number), str(path), str(digest)] if number >= 0 and not isinstance(number, bool):
            parts = PurePosixPath(path).parts
            if path and not path.startswith("/") and ".." not in parts and "\0" not in path:
                return number, path, digest
    raise FormatError("not a file of a parcel")

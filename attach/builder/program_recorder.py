"""The program recorder: runs programs without a GPU, and replaces them by entries of the kernels that they request.

A program runs in its own child process for each target, so that its requests depend on nothing else. The requests of a
call are kept in the memo under the digest of its sources and declared inputs: there is nothing else that it could read.
A script is run each time, since it may do anything.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from precast.attach.builder.program import Call, Program, Script
from precast.attach.builder.recorded_manifest import entry_values
from precast.attach.builder.seam_digests import seam_modules
from precast.attach.guards import NotInstalled
from precast.attach.library import SHIPPED, library_named
from precast.attach.recordings.recording import Recorded
from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import Location, ManifestError
from precast.build.gpu.profile import Profile, Profiles
from precast.build.inputs.closure import Closures, Reads
from precast.build.ipc.capacity import default_jobs
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.link.toolchain import compiler_versions
from precast.build.plan.describer import Description
from precast.build.plan.entry import Entry, Environment, environment_of
from precast.build.plan.manifest import Manifest
from precast.build.plan.matrix import Row, matrix_of
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Key, to_json
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError, PrecastError

_NAME = "process that runs the program"
_PRINTED = 2000
_SECONDS = 300.0  # for one call or script
# The code that decides what is recorded: when it changes, so may a recording.
_READERS = ("precast.attach.builder.child.program_main", "precast.attach.attachment", "precast.attach.seams.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One program for one target, with the rows of its config."""

    entry: Entry
    program: Program
    manifest: Manifest
    target: Target
    profile: Profile
    rows: tuple[Row, ...]

    @property
    def requests(self) -> tuple[dict[str, Any], ...]:
        """The requests to its child process, one for each row."""
        return tuple(self.program.request(row.config) for row in self.rows)

    def label(self, row: Row) -> str:
        """The program with the values of one row, for messages."""
        values = ", ".join(f"{name}={to_json(value)}" for name, value in row.config.items())
        return f"{self.program}{f' with {values}' if values else ''} for {self.target}"

    @property
    def env(self) -> Environment:
        """The variables of its entry, for its target."""
        return environment_of(self.entry.environment(self.target, self.profile))


def record_programs(
    manifests: Sequence[Manifest],
    *,
    targets: Sequence[Target],
    profiles: Profiles,
    notes: Memo | None,
    closures: Closures | None = None,
) -> list[Manifest]:
    """Manifests whose programs have been replaced by entries of the kernels that they request.

    A kernel that several programs request is built once. ``closures`` are those of the search folders of all manifests.
    """
    runs = [run for m in manifests for e in m.entries for run in _runs(e, m, targets, profiles)]
    recordings = _recordings(runs, notes, _closures_of(runs, notes, closures)) if runs else []
    entries: dict[tuple[Target, Environment, str], tuple[Recorded, Run]] = {}
    gpus: dict[tuple[Target, Environment, str], list[str]] = {}
    for run, recorded in zip(runs, recordings, strict=True):
        for kernel in recorded:
            key = (run.target, environment_of(run.entry.env), kernel.key)
            gpus.setdefault(key, []).append(run.profile.name)
            before = entries.get(key)
            # Several calls may have the same key: keep the first by its text, whichever program made it.
            entries[key] = (
                (kernel, run) if before is None else (min(kernel, before[0], key=lambda r: r.text), before[1])
            )
    ordered = sorted(entries.items(), key=lambda item: item[1][0].text)
    replacements = [
        (run, replace(_entry(kernel, run), gpus=tuple(dict.fromkeys(gpus[key])))) for key, (kernel, run) in ordered
    ]
    return [replace(m, entries=tuple(_replaced(m, replacements))) for m in manifests]


def _replaced(manifest: Manifest, replacements: Sequence[tuple[Run, Entry]]) -> Iterator[Entry]:
    for entry in manifest.entries:
        if entry.program is None:
            yield entry
        else:
            yield from (new for run, new in replacements if run.entry is entry)


def _runs(entry: Entry, manifest: Manifest, targets: Sequence[Target], profiles: Profiles) -> Iterator[Run]:
    program = entry.program
    if not isinstance(program, (Call, Script)):
        return
    keys = tuple(Key(name=name) for name in program.names)
    matrix = matrix_of(entry, Description(op=str(program), source="", keys=keys, declared=True))
    rows = tuple(matrix.rows())
    for target in entry.targets:
        for profile in profiles.all_of(target) if not targets or target in targets else ():
            yield Run(
                entry=entry,
                program=program,
                manifest=manifest,
                target=target,
                profile=profile,
                rows=rows,
            )


def _entry(recorded: Recorded, run: Run) -> Entry:
    """The entry of one recorded kernel, at the location of its program."""
    config, tuned = (
        {name: _node(value, run.entry.location) for name, value in values.items()} for values in entry_values(recorded)
    )
    source = f"{recorded.compile}@{recorded.library}"
    own = replace(run.entry, program=None, include=(), exclude=(), skip_unsupported=False)
    return replace(own, source=source, targets=(run.target,), config=config, tuned=tuned)


def _node(value: Any, at: Location) -> Node:
    return Node(tuple(_node(item, at) for item in value) if isinstance(value, list) else value, at)


def _closures_of(runs: Sequence[Run], notes: Memo | None, closures: Closures | None) -> list[Closures]:
    """The closures of each run, by its own search folders."""
    own: dict[tuple[Any, ...], Closures] = {}
    for run in runs:
        search = run.manifest.search
        if search not in own:
            same = closures is not None and closures.answers.roots.search == tuple(map(os.path.abspath, search))
            own[search] = closures if closures is not None and same else Closures.here(search, notes)
    return [own[run.manifest.search] for run in runs]


def _recordings(runs: Sequence[Run], notes: Memo | None, closures: Sequence[Closures]) -> list[tuple[Recorded, ...]]:
    """The requests of each run: from the memo, or from its own child process, several at a time."""
    keys = ["" if notes is None else _note_key(run, own) for run, own in zip(runs, closures, strict=True)]
    results = {n: noted for n, key in enumerate(keys) if key and notes and (noted := _noted(notes, key)) is not None}
    waiting = iter([n for n in range(len(runs)) if n not in results])
    while batch := list(itertools.islice(waiting, default_jobs())):
        with ExitStack() as stack:
            children = [stack.enter_context(_start(runs[n], closures[n])) for n in batch]
            for n, child in zip(batch, children, strict=True):
                results[n] = _recorded(runs[n], child)
                if keys[n] and notes and _is_as_read(runs[n], closures[n]):
                    notes.put("programs", keys[n], [kernel.to_json() for kernel in results[n]])
    return [results[n] for n in range(len(runs))]


def _start(run: Run, closures: Closures) -> ChildProcess:
    """A child process, with the requests of all rows sent to it. A script is not closed."""
    closure = None
    if not isinstance(run.program, Script):
        program = Reads(source=run.program.place, declared=run.entry.inputs)
        closure = closures.of([program, *map(_library_reads, run.program.libraries or SHIPPED)]).to_json()
    child = ChildProcess(
        "precast.attach.builder.child.program_main",
        name=_NAME,
        settings={
            "profile": run.profile.to_json(),
            "libraries": list(run.program.libraries) or None,
            "search": [str(folder) for folder in run.manifest.search],
            "folder": str(run.manifest.path.absolute().parent),
            "closure": closure,
        },
        environment=child_environment(os.environ, target=run.target, env=dict(run.env), closed=closure is not None),
    )
    child.send(Message({"runs": list(run.requests)}))
    return child


def _library_reads(library: str) -> Reads:
    """What attaching a library reads: the guard of its kernels has all files of its package."""
    *prepared, package = seam_modules(library)
    return Reads(source=package, modules=tuple(prepared), package=package)


def _recorded(run: Run, child: ChildProcess) -> tuple[Recorded, ...]:
    """What a child process has recorded; raises ManifestError if the program failed."""
    at = run.entry.location
    try:
        reply = child.receive(_SECONDS * len(run.rows)).header
    except ChildLost as lost:
        printed = _indented(lost.output[-_PRINTED:])
        raise ManifestError(f"{run.program} failed for {run.target}: {lost}: correct it{printed}", at) from None
    try:
        if "row" in reply:
            _refuse(reply, run, run.rows[fields.get(reply, "row", int)])
        recorded = fields.items(reply, "recorded", Recorded.parse, most=100_000)
        left_out = fields.items(reply, "left_out", fields.text, most=100_000)
    except ManifestError:
        raise
    except (FormatError, IndexError) as error:
        raise ManifestError(f"the recording of {run.program} cannot be read ({error}): report this", at) from None
    reasons = _indented("\n".join(left_out))
    if not recorded:
        raise ManifestError(
            f"{run.program} requested no kernel of an attached library for {run.target}: call a function that compiles "
            f"one, or name its library with 'libraries'{reasons}",
            run.entry.location,
        )
    if left_out and not run.entry.skip_unsupported:
        raise ManifestError(
            f"{run.program} requested kernels for {run.target} that a manifest cannot hold: "
            f"add 'skip_unsupported: true' to build only the others{reasons}",
            run.entry.location,
        )
    return recorded


def _refuse(reply: Mapping[str, Any], run: Run, row: Row) -> None:
    """Raise the error of one row."""
    frames = _indented(str(reply.get("traceback", "")))
    if "refused" in reply:
        raise ManifestError(f"{run.label(row)} cannot be recorded: {reply['refused']}{frames}", row.at)
    error = f"{run.label(row)} failed with {reply.get('error')}: correct it, or its entry"
    raise ManifestError(f"{error}{frames}", row.at)


def _indented(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.rstrip().splitlines())


def _noted(notes: Memo, key: str) -> tuple[Recorded, ...] | None:
    noted = notes.get("programs", key)
    try:
        return tuple(map(Recorded.parse, noted)) if isinstance(noted, list) and noted else None
    except FormatError:
        return None


def _note_key(run: Run, closures: Closures) -> str:
    """The key of a recording in the memo; empty for a program that is run each time."""
    if isinstance(run.program, Script):
        return ""
    try:
        digests = [closures.sources.digest(source) for source in (run.program.place, *_READERS)]
        declared = closures.answers.answers(run.entry.inputs)
        versions = _versions()
        guards = list(_guards(run.program.libraries))
    except (PrecastError, OSError):
        return ""  # the child process reports the error
    return memo_key(run.requests, str(run.target), run.profile.to_json(), run.env, digests, declared, versions, guards)


def _is_as_read(run: Run, closures: Closures) -> bool:
    return not isinstance(run.program, Script) and closures.are_as_read(run.program.place, run.entry.inputs)


def _versions() -> list[str]:
    """The versions of the compiler and of its CUDA; none if it is not installed."""
    return [] if find_spec("cutlass") is None else list(compiler_versions().values())


def _guards(libraries: Iterable[str]) -> Iterator[list[str]]:
    """The attached libraries with their versions and the digests of their sources, on which a recording depends."""
    for name in libraries or SHIPPED:
        try:
            guard = library_named(name).guard()
        except NotInstalled:
            continue
        yield [name, guard.version, guard.source]

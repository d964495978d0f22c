"""Frozen tables: which kernel each request of a program gets, decided here, for libprecast to look up.

libprecast decides nothing but whether a kernel runs on its machine: it reads ``table.json`` and the blobs beside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precast.build.disk.output_folder import check_output_folder
from precast.build.disk.scratch import write_atomically
from precast.build.errors import OutputError
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.config import canonical, to_json
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.program.program_code import program_code
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, FormatError
from precast.loader.machine.machine import Machine, version
from precast.loader.resolve.by_problem import Decisions
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import Candidate, Request
from precast.loader.resolve.discover import Caches, DiscoveredCache, sources_of
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.not_found import refuse
from precast.loader.resolve.resolution import Resolution
from precast.loader.resolve.rules import FFI, needed_cuda, needed_glibc, runtimes_for

FORMAT, VERSION, TABLE, BLOBS = "precast-native", 1, "table.json", "blobs"
# What libprecast reads: kernels of one request, bytes of a table, and values in it.
MOST_KERNELS, SIZE_LIMIT, VALUE_LIMIT = 64, 16 << 20, 1_000_000


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """The bytes of ``table.json``, the blobs by their digests, and what the decisions noted."""

    data: bytes
    blobs: dict[str, bytes]
    requests: int
    kernels: int
    notes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The digest that pins the folder."""
        return digest(self.data)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return len(self.data) + sum(map(len, self.blobs.values()))


def freeze(paths: Sequence[Path], requests: Iterable[Request], machines: Sequence[Machine]) -> FrozenTable:
    """Decide about each request as ``loader.get`` does, for each machine.

    Parameters
    ----------
    paths
        The caches, the preferred first.
    requests
        What the program requests.
    machines
        What it runs on.
    """
    opened = [(path, Cache(path)) for path in paths]
    caches = Caches(DiscoveredCache(name=c.name, path=p, origin="", cache=c, label=c.name) for p, c in opened)
    writer, decisions, notes = _Writer([cache for _, cache in opened]), Decisions(), dict[str, None]()
    for request in requests:
        sources, _ = sources_of(request.op, caches)
        candidates: list[Candidate] = []
        for machine in machines:
            resolution = _decide(request, machine, sources, decisions)
            candidates += _alike(resolution)
            notes |= dict.fromkeys(f"{request.op}: {note}" for note in resolution.notes)
        writer.add(request, sorted(candidates, key=lambda candidate: candidate.target.rank))
    return writer.table(tuple(notes))


def _decide(request: Request, machine: Machine, sources: list[Any], decisions: Decisions) -> Resolution:
    alone = replace(request, problem=None)
    if request.problem is None:
        resolution = resolve(alone, machine, sources, full=False)
    else:
        resolution = decisions.of(request, machine, lambda: resolve(alone, machine, sources, full=False))
    if resolution.chosen is None:
        refuse(resolve(request, machine, sources))
    return resolution


def _alike(resolution: Resolution) -> Iterator[Candidate]:
    """The chosen artifact, then the others of its variant that other machines need: a cubin beside an object, or one
    that was built for another GPU of the target."""
    chosen, seen = resolution.accepted[0].candidate, []
    for accepted in resolution.accepted:
        candidate = accepted.candidate
        needs = candidate.artifact.kind, candidate.artifact.assumes
        if candidate.variant == chosen.variant and needs not in seen:
            seen.append(needs)
            yield candidate


@dataclass(slots=True)
class _Writer:
    """Collects the lines of a table and the blobs that they name."""

    caches: list[Cache]
    blobs: dict[str, bytes] = field(default_factory=dict)
    kernels: dict[bytes, int] = field(default_factory=dict)
    requests: dict[bytes, list[int]] = field(default_factory=dict)

    def add(self, request: Request, candidates: Iterable[Candidate]) -> None:
        """Add a request with the kernels that serve it, the preferred first."""
        rows = [canonical(self._kernel(request.op, candidate)) for candidate in candidates]
        places = list(dict.fromkeys(self.kernels.setdefault(row, len(self.kernels)) for row in rows))
        if len(places) > MOST_KERNELS:
            raise ConfigError(
                f"{request} has {len(places)} kernels, more than the {MOST_KERNELS} of a table: freeze fewer targets"
            )
        line: dict[str, Any] = {"op": request.op, "config": dict(request.config)}
        self.requests[canonical(line | ({"problem": dict(request.problem)} if request.problem else {}))] = places

    def table(self, notes: tuple[str, ...]) -> FrozenTable:
        """The table: a line for each kernel and each request, in the order in which they were first requested."""
        requests = [line[:-1] + b',"kernels":' + canonical(places) + b"}" for line, places in self.requests.items()]
        head = b'{"format":"%s","version":%d,\n' % (FORMAT.encode(), VERSION)
        data = head + b'"kernels":[\n%s\n],\n"requests":[\n%s\n]}\n' % (
            b",\n".join(self.kernels),
            b",\n".join(requests),
        )
        if len(data) > SIZE_LIMIT or sum(map(data.count, (b"[", b"{", b","))) > VALUE_LIMIT:
            raise ConfigError(
                f"a table of {len(requests)} requests is more than libprecast reads: freeze fewer a folder"
            )
        return FrozenTable(data, self.blobs, len(requests), len(self.kernels), notes)

    def _kernel(self, op: str, candidate: Candidate) -> dict[str, Any]:
        artifact, cuda = candidate.artifact, needed_cuda(candidate)
        row: dict[str, Any] = {
            "key": artifact.key,
            "config": {name: to_json(value) for name, value in artifact.config.items()},
            "target": str(artifact.target),
            "kind": artifact.kind,
            "symbol": artifact.symbol,
            "signature": artifact.signature.to_json(),
            "blob": self._read(candidate, artifact.blob),
            "tvm_ffi": candidate.source.index.toolchain.get(FFI, ""),
            "cuda": version(cuda) if cuda else "",
        }
        if artifact.assumes is not None:
            row |= {"needs": dict(artifact.assumes.needs), "speed": dict(artifact.assumes.speed)}
        if artifact.program is None:
            runtime, glibc = runtimes_for(candidate)[0], needed_glibc(candidate)
            assert glibc is not None  # an object has a host
            row["host"] = {"arch": runtime.host.arch, "glibc": version(glibc)}
            row["runtime"] = {"soname": runtime.soname, "blob": self._read(candidate, runtime.blob)}
            return row
        try:
            return row | {"program": self._keep(program_code(op, artifact.signature, artifact.program))}
        except FormatError as error:
            raise ConfigError(
                f"{artifact.key[:12]} cannot be launched: {error}: build an object of {op} for this host"
            ) from None

    def _read(self, candidate: Candidate, blob: Blob) -> dict[str, Any]:
        data = self.blobs.get(blob.sha256)
        return self._keep(self.caches[candidate.source.precedence].read(blob) if data is None else data)

    def _keep(self, data: bytes) -> dict[str, Any]:
        sha256 = digest(data)
        self.blobs[sha256] = data
        return {"sha256": sha256, "size": len(data)}


def write_table(table: FrozenTable, output: Path) -> None:
    """Write the folder of a table. The table comes last, so that it never names a blob that is not there."""
    check_output_folder(output)
    if output.is_dir() and any(output.iterdir()) and not (output / TABLE).is_file():
        raise OutputError(f"{output} holds other files: choose a new folder, or one that 'precast native' made")
    blobs = output / BLOBS
    for sha256, data in table.blobs.items():
        write_atomically(blobs / sha256, data, sync=False)
    write_atomically(output / TABLE, table.data)
    for path in blobs.iterdir():
        if path.name not in table.blobs:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

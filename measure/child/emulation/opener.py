"""The opener of emulated kernels: from an artifact of a cache, without a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from precast.build.child.recording_runtime import RecordingRuntime
from precast.build.gpu.profile import profile_of
from precast.emulator import Emulator, Options, Unsupported
from precast.loader.contract.format.artifact import Artifact
from precast.loader.machine.facts import ATTRIBUTES, CLUSTERS
from precast.loader.resolve.cache import Cache
from precast.measure.child.emulation.emulated_kernel import EmulatedKernel
from precast.measure.child.emulation.host_code import HostCode, ObjectCode, ProgramCode
from precast.measure.child.emulation.ranks_code import RanksCode, ranked

_MULTIPROCESSORS = "multiprocessor_count"


class EmulatedOpener:
    """Opens artifacts of one cache.

    Parameters
    ----------
    cache
        What has the artifacts.
    runtime
        The recording runtime, under the name of the cache's runtime library.
    folder
        Where libraries are written, from which they are opened.
    """

    def __init__(self, cache: Cache, runtime: RecordingRuntime, folder: Path) -> None:
        self._cache, self._runtime, self._folder = cache, runtime, folder

    def open(
        self, op: str, artifact: Artifact, ptx: str, *, written: Collection[str] | None = None, limit: int = 0
    ) -> EmulatedKernel:
        """An artifact as a kernel; raises Unsupported for PTX that is not emulated.

        ``written`` names what it may write; ``limit`` is the most warp instructions of a call.
        """
        emulator = Emulator([ptx])
        kernels = {r.kernel: [size for _, size in emulator.program(r.kernel).parameters] for r in artifact.resources}
        facts = numbers_of(artifact)
        options = _options(facts, limit)
        return EmulatedKernel(op, artifact, self._host_code(artifact, kernels, facts), emulator, options, written)

    def open_ranks(
        self,
        op: str,
        artifacts: Sequence[Artifact],
        texts: Sequence[str],
        *,
        written: Collection[str] | None = None,
        limit: int = 0,
    ) -> EmulatedKernel:
        """The artifacts of all ranks as one kernel, which launches them together."""
        names = [[r.kernel for r in artifact.resources] for artifact in artifacts]
        renamed = []
        for rank, (text, kernels) in enumerate(zip(texts, names, strict=True)):
            for kernel in kernels:
                text = text.replace(kernel, ranked(kernel, rank))
            renamed.append(text)
        emulator = Emulator(renamed)
        facts = numbers_of(artifacts[0])
        hosts = []
        for rank, artifact in enumerate(artifacts):
            sizes = {k: [s for _, s in emulator.program(ranked(k, rank)).parameters] for k in names[rank]}
            hosts.append(self._host_code(artifact, sizes, facts))
        options = _options(facts, limit)
        return EmulatedKernel(op, artifacts[0], RanksCode(hosts), emulator, options, written)

    def _host_code(self, artifact: Artifact, kernels: Mapping[str, list[int]], facts: Mapping[str, int]) -> HostCode:
        if artifact.kind == "cubin":
            if artifact.program is None:
                raise Unsupported("a cubin without a host program, for tools to read")
            return ProgramCode(artifact.program, artifact.signature, kernels)
        code = self._cache.read(artifact.blob)
        library = self._folder / f"{hashlib.sha256(code).hexdigest()}.so"
        if not library.exists():
            library.write_bytes(code)
        attributes = {ATTRIBUTES[name]: value for name, value in facts.items() if name in ATTRIBUTES}
        return ObjectCode(self._runtime, library, artifact.symbol, artifact.signature, kernels, attributes)


def _options(facts: Mapping[str, int], limit: int) -> Options:
    """The GPU that is emulated, by its numbers."""
    clusters = {int(name.removeprefix(CLUSTERS)): most for name, most in facts.items() if name.startswith(CLUSTERS)}
    return Options(check_races=True, limit=limit, multiprocessors=facts[_MULTIPROCESSORS], clusters=clusters)


def numbers_of(artifact: Artifact) -> dict[str, int]:
    """The numbers of the GPU that is emulated: those that were compiled in, else those of the target's first GPU."""
    facts = {name: fact.value for name, fact in profile_of(artifact.target).facts.items()}
    if artifact.assumes:
        facts |= {**artifact.assumes.speed, **artifact.assumes.needs}
    return {name: value for name, value in facts.items() if isinstance(value, int)}

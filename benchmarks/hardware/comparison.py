"""Emulates what a GPU was given, and compares bits."""

from __future__ import annotations

import json
import multiprocessing
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precast.build.child.recording_runtime import RecordingRuntime
from precast.build.link.toolchain import find_toolchain
from precast.build.rehearsal.recorder import SOURCE, recorder_library
from precast.build.store.store import Store
from precast.emulator import find_library
from precast.kernels.authoring.declare import Declaration
from precast.kernels.authoring.tensors import emulated_multiprocessors
from precast.loader.contract.format.artifact import Artifact
from precast.loader.resolve.cache import Cache
from precast.measure.checks.scenarios import Schedule
from precast.measure.child.emulation.emulated_kernel import EmulatedKernel
from precast.measure.child.emulation.opener import EmulatedOpener, numbers_of
from precast.measure.launching.cases import bound, declaration_for
from precast.measure.verification.kept_ptx import KeptPtx

from .problem import Chosen, aligned, choose, digest, raw
from .stored import BLOCK, Output, Result, load, offsets

LIMIT = 1 << 27  # warp instructions
ORDERS = 128  # random schedules of a kernel whose result depends on the order of atomic operations
MANTISSAS = {"float32": 23, "float16": 10, "bfloat16": 7, "float64": 52}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One variant: `equal`, `order` (of atomic operations is another), `close` (differs in some bits), `refused`
    or `failed`; the share of equal elements and the largest difference in steps of the output's type, over all outputs.
    """

    manifest: str
    op: str
    key: str
    config: str
    problem: dict[str, int]
    verdict: str
    reason: str = ""
    share: float = 1.0
    steps: int = 0
    elements: int = 0
    instructions: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        text = f"{self.verdict:8} {self.op} ({self.config[:80]}): "
        return text + (self.reason[:300] or f"{self.share:.2%} of {self.elements} elements, {self.steps} steps at most")


def compare_all(
    folder: Path, caches: Sequence[Path], store: Path | None, ops: Sequence[str], out: Path | None, processes: int = 1
) -> int:
    """Compare every variant that a GPU gave results for; 1 if one differs by more than an order of atomics."""
    artifacts = {(op, config_of(a)): (cache, op, a) for cache, op, a in _artifacts(caches)}
    asked = [r for r in load(folder) if not r.failed and (r.op, r.config) in artifacts and (not ops or r.op in ops)]
    _work[:] = [(*artifacts[r.op, r.config], r, store or Path("store")) for r in asked]
    find_library()  # compiled here, and not by each process
    results: list[Compared] = []
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=50) as pool:
        for compared in pool.imap(_compare_one, range(len(_work)), chunksize=1):
            results.append(compared)
            print(compared, flush=True)
    print(Counter(c.verdict for c in results))
    if out:
        rows = sorted((asdict(c) for c in results), key=lambda row: (row["op"], row["manifest"], row["config"]))
        for row in rows:
            del row["seconds"]
        out.write_text(json.dumps(rows, sort_keys=True, indent=1) + "\n")
    return int(any(c.verdict not in ("equal", "order") for c in results))


_openers: Openers | None = None  # of this process, which compares a few variants and ends


_work: list[tuple[Cache, str, Artifact, Result, Path]] = []  # what forked processes find


def _compare_one(number: int) -> Compared:
    global _openers
    cache, op, artifact, result, store = _work[number]
    if _openers is None:
        _openers = Openers(Path(tempfile.mkdtemp(prefix="compare-")), Store(store))
    opener, kept = _openers.of(cache)
    return compare(opener, kept, op, artifact, result)


class Openers:
    """Openers of emulated kernels: one for each cache, and one recording runtime for each name of a runtime library."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self._store = folder, store
        self._runtimes: dict[str, RecordingRuntime] = {}
        self._openers: dict[Path, tuple[EmulatedOpener, KeptPtx]] = {}

    def of(self, cache: Cache) -> tuple[EmulatedOpener, KeptPtx]:
        """The opener of a cache, and its PTX."""
        if cache.path not in self._openers:
            sonames = {runtime.host.arch: runtime.soname for runtime in cache.index.runtimes}
            soname = sonames.get(platform.machine(), "recorder.so")
            if soname not in self._runtimes:
                toolchain = find_toolchain()
                (self._folder / soname).write_bytes(recorder_library(toolchain.gcc, SOURCE, soname))
                ffi = toolchain.ffi / "libtvm_ffi.so"
                self._runtimes[soname] = RecordingRuntime(str(ffi), str(self._folder / soname))
            runtime = self._runtimes[soname]
            opener = EmulatedOpener(cache, runtime, self._folder)
            self._openers[cache.path] = opener, KeptPtx(cache, self._store)
        return self._openers[cache.path]


def config_of(artifact: Artifact) -> str:
    """A config as results name it."""
    return ", ".join(f"{k}={v}" for k, v in artifact.config.items())


def _artifacts(caches: Sequence[Path]) -> Iterator[tuple[Cache, str, Artifact]]:
    for path in caches:
        cache = Cache(path)
        for op in sorted(cache.index.ops):
            for artifact in cache.op(op).artifacts:
                if str(artifact.target) == "sm_90a" and artifact.launchable:
                    yield cache, op, artifact


def compare(opener: EmulatedOpener, kept: KeptPtx, op: str, artifact: Artifact, result: Result) -> Compared:
    """Emulate one variant on the inputs that the GPU had."""
    about = {"manifest": result.manifest, "op": op, "config": result.config, "problem": result.problem}
    about |= {"key": artifact.key[:12]}
    declaration = declaration_for(op, artifact)
    begun = time.monotonic()
    try:
        with emulated_multiprocessors(numbers_of(artifact)["multiprocessor_count"]):
            chosen = choose(declaration, artifact)
            if reason := _other_inputs(chosen, declaration, result):
                return Compared(**about, verdict="failed", reason=reason)
            kernel = opener.open(op, artifact, kept.text(op, artifact), limit=LIMIT)
            kernel.options = type(kernel.options)(limit=LIMIT, multiprocessors=kernel.options.multiprocessors)
            differences = _run(kernel, chosen, result)
            verdict = "close" if any(each.wrong.any() for each in differences) else "equal"
            if verdict == "close" and not declaration.deterministic:
                verdict = _in_some_order(kernel, chosen, result, differences)
    except Exception as error:
        refused = type(error).__name__ in ("Unsupported", "NoPtx") or "not emulated" in str(error)
        reason = f"{type(error).__name__}: {error}"[:400]
        return Compared(**about, verdict="refused" if refused else "failed", reason=reason)
    elements = sum(each.elements for each in differences)
    return Compared(
        **about,
        verdict=verdict,
        share=1 - sum(each.count for each in differences) / max(1, elements),
        steps=max(each.steps for each in differences),
        elements=elements,
        instructions=kernel.spent.counts.instructions,
        seconds=round(time.monotonic() - begun, 3),
    )


def _other_inputs(chosen: Chosen | None, declaration: Declaration, result: Result) -> str:
    """Why the problem is not what the GPU ran; empty if it is."""
    import torch

    if chosen is None or chosen.problem != result.problem:
        return "another problem is chosen now: record again"
    mine = {name: digest(raw(v)) for name, v in chosen.values.items() if isinstance(v, torch.Tensor)}
    for name in declaration.workspace:  # what it holds before a launch may be anything
        mine.pop(name, None)
    different = sorted(name for name in mine if mine[name] != result.inputs.get(name))
    return f"inputs differ from the GPU's: {', '.join(different)}" if different else ""


def _run(kernel: EmulatedKernel, chosen: Chosen, result: Result) -> list[Difference]:
    """Run a copy of the problem, and compare each output."""
    values = aligned(chosen.values)
    bound(kernel, values)()
    return [difference(output, raw(values[output.name])) for output in result.outputs]


def _in_some_order(kernel: EmulatedKernel, chosen: Chosen, result: Result, differences: Sequence[Difference]) -> str:
    """ "order" if each element has the GPU's bits in one of several random schedules, else "close"."""
    wrong = [each.wrong for each in differences]
    for seed in range(1, ORDERS + 1):
        again = _run(kernel.under(Schedule(seed, 0)), chosen, result)
        wrong = [before & now.wrong for before, now in zip(wrong, again, strict=True)]
        if not any(each.any() for each in wrong):
            return "order"
    return "close"


@dataclass(frozen=True, slots=True)
class Difference:
    """An output beside the GPU's.

    ``wrong`` are the elements of the sample that differ; ``count`` is how many of all do, by the sample, and ``steps``
    by how much at most.
    """

    wrong: Any
    elements: int
    count: int = 0
    steps: int = 0


def difference(output: Output, data: bytes) -> Difference:
    """Compare the bytes of an output with what the GPU gave."""
    size = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}.get(output.dtype, 1)
    elements = len(data) // size
    where = offsets(len(data))
    mine = data if len(where) == 1 else b"".join(data[i : i + BLOCK] for i in where)
    a, b = np.frombuffer(mine, f"<i{size}"), np.frombuffer(output.sample, f"<i{size}")
    if digest(data) == output.digest:
        return Difference(np.zeros(len(a), bool), elements)
    if len(a) != len(b) or not len(a):
        return Difference(np.ones(1, bool), elements, elements, -1)
    wrong = a != b
    if not wrong.any():  # what differs is outside of the sample
        return Difference(np.ones(1, bool), elements, 1)
    steps = np.abs(_ordered(a, output.dtype) - _ordered(b, output.dtype))
    count = max(1, round(int(wrong.sum()) * (len(data) / max(1, len(mine)))))
    return Difference(wrong, elements, count, int(steps.max()))


def _ordered(bits: Any, dtype: str) -> Any:
    """Bits of floats as integers in the order of their values, so that differences count steps."""
    wide = bits.astype(np.float64 if bits.dtype.itemsize == 8 else np.int64)
    if dtype.startswith(("float", "bfloat")):
        low = float(np.iinfo(bits.dtype).min)
        return np.where(wide < 0, low - wide, wide)
    return wide

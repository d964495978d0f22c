"""Ops of caches that exist in memory only, a machine, and estimates, for tests of resolution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from precast.loader.contract.format.artifact import Artifact, Blob, Host
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import Index, OpIndex, Runtime
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.estimate import Choice, Estimate
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table_writer import tables_of
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp
from tests.helpers.caches import HOST, SCALE_KEYS, artifact, reader_of

BLOB = Blob(sha256="a" * 64, size=1, stored=1, encoding="raw")
HERE = Machine(arch=HOST.arch, glibc=(2, 36), tvm_ffi="0.1.16", driver=(13, 0), capability=Capability(9, 0))
TOOLS = {"apache-tvm-ffi": "0.1.15", "cuda": "12.9"}


def source(
    *artifacts: Artifact,
    keys: tuple[Key, ...] = SCALE_KEYS,
    precedence: int = 0,
    toolchain: dict[str, str] = TOOLS,
    hosts: tuple[Host, ...] = (HOST,),
) -> CachedOp:
    runtimes = tuple(Runtime(soname=f"libprecast-rt-{n:016x}.so", host=h, blob=BLOB) for n, h in enumerate(hosts))
    index = Index(name=f"c{precedence}", toolchain=toolchain, runtimes=runtimes, ops={})
    op = reader_of(OpIndex.of(op="scale", keys=keys, doc="", artifacts=artifacts))
    return CachedOp(cache=f"c{precedence}", precedence=precedence, index=index, op=op)


def scale(target: str = "sm_90a", dtype: str = "bfloat16", threads: int = 128, **more: Any) -> Artifact:
    config = {"dtype": dtype, "layout": more.pop("layout", "row"), "threads": threads}
    return artifact(BLOB, config, target, **more)


def fastest(
    table: Iterable[Measured],
    problem: Mapping[str, int],
    keys: Iterable[str],
    *,
    gpu: str | None,
    capability: Capability | None,
) -> Choice | None:
    """The choice for one problem."""
    return Estimate(tables_of(table, {}), problem, keys, gpu=gpu, capability=capability).fastest(problem)


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The distance of two problems with the same axes, in the logarithms of their sizes."""
    points = ([math.log2(problem[axis] + 1) for axis in sorted(problem)] for problem in (one, other))
    return math.dist(*points)

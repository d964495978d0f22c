"""Preloading 1000 variants: time on the CPU, and memory against the bytes of the libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loader_benchmark import Result
from loader_caches import thousand

from loader_sections._child import child

CODE = """
import json, os, time, torch
from precast import loader
from precast.loader.launch import ffi
ffi.entry = lambda library, symbol: print
import zstandard
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
loader.get("number", {"number": 0}, target="sm_90a")
before = resident()
requests = [("number", {"number": n}) for n in range(1, 1000)]
start, cpu = time.perf_counter(), time.process_time()
done = loader.preload(requests, target="sm_90a")
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
size = sum(one.kernel.artifact.blob.size for one in done.loaded)
print(json.dumps([seconds / 999, cpu / 999, (resident() - before) / size]))
"""
ROUNDS = 3


def run() -> Iterator[Result]:
    """Each in a fresh process."""
    path = str(thousand())
    rows = []
    for _ in range(ROUNDS + 1):
        rows.append(json.loads(child(CODE, PRECAST_CACHE_PATH=path)))
    each, cpu, memory = (min(column) for column in zip(*rows[1:], strict=True))
    yield Result(what="preload of 1000 variants, a variant, wall clock", value=each * 1e3, unit="ms", at_most=0.4)
    yield Result(what="preload of 1000 variants, a variant, this process's CPU time", value=cpu * 1e3, unit="ms")
    yield Result(what="memory it took / bytes of the libraries", value=memory, unit="", at_most=2)

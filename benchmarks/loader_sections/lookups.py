"""Finding variants: one that is loaded, the first one in a cache of 10,000 artifacts over 20 ops, and the first for a
problem, by the measurements of an op."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from loader_benchmark import Result
from loader_caches import large, measured

from loader_sections._child import child

# The import of tvm_ffi, by the first load, is another number: a plain function stands in for the entry here.
FIRST = """
import json, sys, time
from precast import loader
from precast.loader import get
from precast.loader.launch import ffi
ffi.entry = lambda library, symbol: print
start = time.perf_counter()
loader.get("op_7", {"dtype": "bfloat16", "hidden": 4096}, target="sm_90a")
first = time.perf_counter() - start
config, count = {"dtype": "bfloat16", "hidden": 4096}, 1_000
loader.get("op_7", config, target="sm_90a")
again = 1.0
for _ in range(100):
    start = time.perf_counter()
    for _ in range(count):
        loader.get("op_7", config, target="sm_90a")
    again = min(again, (time.perf_counter() - start) / count)
print(json.dumps([first, again]))
"""
PROBLEM = """
import json, time
from precast import loader
from precast.loader import get
from precast.loader.launch import ffi
ffi.entry = lambda library, symbol: print
def took(m):
    start = time.perf_counter()
    problem = {"m": m, "n": 4096, "k": 4096} if m else None
    loader.get("product", {"dtype": "bfloat16", "hidden": 8}, problem=problem, target="sm_90a")
    return time.perf_counter() - start
print(json.dumps([took(0), took(300), min(map(took, range(1000, 20_000, 1000)))]))
"""
ROUNDS = 7


def run() -> Iterator[Result]:
    """Each first get in a fresh process; the parse in this one, with the files in memory."""
    path = large()
    first, again = _least(FIRST, path)
    plain, by_problem, others = _least(PROBLEM, measured())
    tables = [(measured() / "ops" / "product.json").read_bytes()]
    parse_tables = min(_parse(tables) for _ in range(ROUNDS))
    files = [p.read_bytes() for p in sorted((path / "ops").iterdir())]
    parse = min(_parse(files) for _ in range(ROUNDS))
    yield Result(what="get, loaded before, with a ready config", value=again * 1e6, unit="us", at_most=2)
    yield Result(what="first get of 10,000 artifacts over 20 ops", value=first * 1e3, unit="ms", at_most=10)
    yield Result(what="parsing the whole index of that cache (json.loads alone)", value=parse * 1e3, unit="ms")
    yield Result(what="first get / parsing the whole index", value=first / parse, unit="", at_most=0.2)
    yield Result(what="first get of an op of 300 measured variants", value=plain * 1e3, unit="ms")
    what = "first get for a problem after it, by 2 x 2500 measured problems"
    yield Result(what=what, value=by_problem * 1e3, unit="ms")
    yield Result(what="get for another problem", value=others * 1e3, unit="ms")
    what = "first get for a problem / parsing its op's file (json.loads alone)"
    yield Result(what=what, value=by_problem / parse_tables, unit="")


def _least(code: str, cache: Path) -> list[float]:
    """The least of each time that some processes print; the first one warms the files."""
    rows = [json.loads(child(code, PRECAST_CACHE_PATH=str(cache))) for _ in range(ROUNDS + 1)]
    return [min(column) for column in zip(*rows[1:], strict=True)]


def _parse(files: list[bytes]) -> float:
    start = time.perf_counter()
    for data in files:
        json.loads(data)
    return time.perf_counter() - start

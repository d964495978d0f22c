"""The caches that the sections ask: made once a run, with libraries that run on the CPU."""

from __future__ import annotations

import functools
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from tests.helpers.caches import CacheWriter, Native, artifact, compiler

KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="hidden", type="int"),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
)
MARK = 0x5A3C7E11
# About as large as a compiled variant: 73 kB, of which most is device code.
VARIANT = """
static const unsigned char code[70000] __attribute__((used)) = {1, 2, 3};
int __tvm_ffi_number(void) { return 0x5A3C7E11 + 0 * code[0]; }
"""


@functools.cache
def folder() -> Path:
    """A folder for as long as this process lives."""
    keep = tempfile.TemporaryDirectory(prefix="precast-benchmark-")
    _kept.append(keep)
    return Path(keep.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def large(artifacts: int = 10_000, ops: int = 20) -> Path:
    """Many artifacts over some ops; all share one library, since finding is what is timed."""
    native = Native(folder())
    writer = CacheWriter(name="large")
    writer.runtime(*native.runtime())
    blob = writer.keep(native.entry())
    each = artifacts // ops
    for op in range(ops):
        rows = []
        for n in range(each):
            config = {
                "dtype": ("bfloat16", "float16")[n % 2],
                "hidden": 128 * (n // 4 + 1),
                "threads": 128 + n % 4 // 2,
            }
            one = artifact(blob, config, rank=n % 4 // 2)
            rows.append(replace(one, provenance={"function": f"library.kernels.op_{op}:compile_it", "env": {}}))
        writer.op(f"op_{op}", rows, keys=KEYS)
    return writer.write(folder() / "large")


@functools.cache
def measured(variants: int = 150, problems: int = 2500) -> Path:
    """An op as ``gemm`` is shipped: in two dtypes, with as many variants each, of which a third has a time at each of
    as many problems."""
    native = Native(folder())
    writer = CacheWriter(name="measured")
    writer.runtime(*native.runtime())
    blob = writer.keep(native.entry())
    chance, rows, table = random.Random(0), [], []
    for dtype in ("bfloat16", "float8_e4m3fn"):
        some = [
            artifact(blob, {"dtype": dtype, "hidden": 8, "threads": threads}, rank=threads)
            for threads in range(variants)
        ]
        rows += some
        keys = [one.key for one in some]
        tilings = {key: Tiling(tile={"m": 8 * (at + 1), "n": 64}, at_once=132) for at, key in enumerate(keys)}
        for _ in range(problems):
            problem = {
                "m": chance.randrange(1, 16_384),
                "n": chance.randrange(1, 30_000),
                "k": chance.randrange(1, 30_000),
            }
            times = {key: round(chance.uniform(5, 500), 2) for key in chance.sample(keys, variants // 3)}
            held = {key: tilings[key] for key in times}
            table.append(Measured(gpu="H", capability=Capability(9, 0), problem=problem, times=times, tilings=held))
    writer.ops["product"] = OpIndex.of(
        op="product", keys=KEYS, doc="", artifacts=tuple(rows), tuning=tuple({m.place: m for m in table}.values())
    )
    return writer.write(folder() / "measured")


@functools.cache
def thousand(count: int = 1000) -> Path:
    """As many libraries, each its own."""
    native = Native(folder())
    source = folder() / "variant.c"
    source.write_text(VARIANT)
    compiler(source, "-o", folder() / "variant.so")
    code = (folder() / "variant.so").read_bytes()
    mark = MARK.to_bytes(4, "little")
    writer = CacheWriter(name="thousand")
    writer.runtime(*native.runtime())
    rows = []
    for n in range(count):
        blob = writer.keep(code.replace(mark, n.to_bytes(4, "little")))
        rows.append(artifact(blob, {"number": n}, symbol="__tvm_ffi_number"))
    writer.op("number", rows, keys=(Key(name="number", type="int"),))
    return writer.write(folder() / "thousand")

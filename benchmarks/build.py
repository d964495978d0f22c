"""What a build costs, as ratios within one run: workers against each other, against a plain loop, and doing nothing.

    python benchmarks/build.py                                   everything, with CUTLASS's operators
    python benchmarks/build.py workers --manifest mine.yaml      one of them, with other variants
    python benchmarks/build.py --json                            for machines

``workers``: two workers against one on two processors; at least 1.7. ``loop``: one worker against a plain loop of
compile and export over the same variants in one process; at most 1.10. ``nothing``: a build of 1000 variants with
nothing to do, as a whole process; at most 1 s. ``size``: bytes a variant in the wheel, all included; at most 7000.
``scratch``: a hundred kernels over rows from an empty store on two processors, against two plain loops that share them;
at most 1.3, of the clock and of the processors' time, whichever is more: other work on the machine flatters the clock.
``check``: reading, decoding and hashing every byte of a cache of 10,000 artifacts of 73 kB; at most 10 s.

The first two start with the kernels described already, as all builds but the first do. Exit 1 where one is missed.
Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from build_sections.projects import few, planned, precast, small
from build_sections.scratch import built, compiled, first

HERE = Path(__file__).parent
GEMM = HERE / "gemm.yaml"

# The same road without precast's: one process, one variant after the other, each compiled and exported.
LOOP = """
import json, sys, tempfile, time
from pathlib import Path
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.compiler.capture import Catcher
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.kernels.authoring.registry import FunctionRef, load
from precast.kernels.authoring.schema import call

begun = time.perf_counter()
work = json.load(open(sys.argv[1]))
sys.path[:0] = work["search"]
answers = FactRecorder(work["profile"]["name"], work["profile"]["facts"])
install_fake_gpu(answers)
catcher = Catcher().install()
started = time.perf_counter() - begun
for number, one in enumerate(work["variants"]):
    source = FunctionRef.parse(one["source"])
    function = load(source)
    catcher.take()
    call(function, one["config"])
    with tempfile.TemporaryDirectory() as folder:
        for caught in catcher.take():
            path = Path(folder, "variant.o")
            caught.compiled.export_to_c(str(path), function_name=f"f{number}", export_only_tvm_ffi_symbols=True)
            path.read_bytes()
print(json.dumps({"seconds": time.perf_counter() - begun, "started": started}))
"""


@dataclass(frozen=True)
class Result:
    """One number, what it must be, and the numbers it was made of."""

    name: str
    value: float
    unit: str
    bound: str
    holds: bool
    made_of: str


def workers(arguments: argparse.Namespace, folder: Path) -> Result:
    """Two workers against one."""
    manifest, _ = few(arguments.manifest, folder, arguments.variants)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(arguments.repeat):
        for jobs in (1, 2):
            place = folder / f"w{jobs}-{number}"
            seconds[jobs].append(
                precast("build", manifest, "-o", place / "cache", "-j", jobs, store=planned(manifest, place / "store"))
            )
    one, two = (statistics.median(seconds[jobs]) for jobs in (1, 2))
    ratio = one / two
    return Result("two workers against one", ratio, "x", ">= 1.7", ratio >= 1.7, f"{one:.1f} s, {two:.1f} s")


def loop(arguments: argparse.Namespace, folder: Path) -> Result:
    """One worker against a plain loop."""
    manifest, work = few(arguments.manifest, folder, arguments.variants)
    listed = folder / "work.json"
    listed.write_text(json.dumps(work))
    from precast.build.ipc.environment import child_environment
    from precast.loader.contract.format.target import Target

    rows = work["variants"]
    assert isinstance(rows, list)
    environment = child_environment(os.environ, target=Target.parse(rows[0]["target"]))
    builds, loops = [], []
    for number in range(arguments.repeat):
        place = folder / f"l{number}"
        store = planned(manifest, place / "store")
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", LOOP, listed], env=environment, check=True, stdout=subprocess.DEVNULL)
        loops.append(time.perf_counter() - begun)
        builds.append(precast("build", manifest, "-o", place / "cache", "-j", 1, store=store))
    build, plain = statistics.median(builds), statistics.median(loops)
    ratio = build / plain
    made_of = f"{build:.1f} s, {plain:.1f} s"
    return Result("one worker against a plain loop", ratio, "x", "<= 1.10", ratio <= 1.10, made_of)


def nothing(arguments: argparse.Namespace, folder: Path) -> Result:
    """A build with nothing to do."""
    manifest = small(folder, arguments.nothing)
    store, cache = folder / "store", folder / "cache"
    first = precast("build", manifest, "-o", cache, store=store)
    taken = min(precast("build", manifest, "-o", cache, store=store) for _ in range(5))
    made_of = f"{arguments.nothing} variants; the first build took {first:.0f} s"
    return Result("a build with nothing to do", taken, "s", "<= 1", taken <= 1.0, made_of)


def scratch_build(arguments: argparse.Namespace, folder: Path) -> Result:
    """A first build, against the DSL's own work."""
    manifest, variants, work = first(arguments.rows, folder)
    builds, loops = [], []
    for number in range(arguments.repeat):
        place = folder / f"scratch-{number}"
        place.mkdir()
        loops.append(compiled(variants, work, LOOP, place))
        builds.append(built(manifest, place))
    build, plain = (min(taken, key=lambda one: one.processor) for taken in (builds, loops))
    ratio = max(build.wall / plain.wall, build.processor / plain.processor)
    made_of = f"{arguments.rows} variants: {build}; two plain loops: {plain}"
    return Result("a first build", ratio, "x", "<= 1.3", ratio <= 1.3, made_of)


def size(arguments: argparse.Namespace, folder: Path) -> Result:
    """Bytes a variant in the wheel, against its library as it is linked."""
    from precast.loader.resolve.cache import Cache

    cache = folder / "cache"
    precast("build", arguments.manifest, "-o", cache, store=arguments.store or folder / "store")
    precast("wheel", cache, "-o", folder / "dist", store=folder / "store")
    opened = Cache(cache)
    artifacts = [a for op in opened.index.ops for a in opened.op(op).artifacts]
    wheel = next((folder / "dist").iterdir()).stat().st_size
    each, raw = wheel / len(artifacts), sum(a.blob.size for a in artifacts) / len(artifacts)
    made_of = f"{len(artifacts)} variants; {raw / 1000:.0f} kB raw, {wheel / 1000:.0f} kB of wheel"
    return Result("a variant in the wheel", each / 1000, "kB", "<= 7", each <= 7000, made_of)


def check(arguments: argparse.Namespace, folder: Path) -> Result:
    """Every byte of a large cache: made of one library's bytes with a part that differs from artifact to artifact."""
    from precast.build.cache.cache_folder import write_cache
    from precast.build.cache.contents import CacheContents
    from precast.build.cache.pack import UncompressedOp, pack_ops, uncompressed
    from precast.loader.contract.format.artifact import Artifact
    from precast.loader.contract.format.index import digest
    from precast.loader.contract.format.signature import Signature
    from precast.loader.contract.format.target import Target

    rng = random.Random(0)
    shared = rng.randbytes(6_000) + bytes(60_000)
    contents = {digest(data): data for data in (shared + rng.randbytes(7_000) for _ in range(arguments.artifacts))}
    signature = Signature(arguments=(), symbols={})
    artifacts = tuple(
        Artifact(
            key=digest(sha256.encode()), config={"n": number}, target=Target.parse("sm_90a"), kind="cubin",
            blob=uncompressed(data), symbol="k", signature=signature, host=None,
        )
        for number, (sha256, data) in enumerate(contents.items())
    )  # fmt: skip
    op = UncompressedOp(keys=(), doc="", artifacts=artifacts)
    threads = len(os.sched_getaffinity(0))
    write_cache(folder / "cache", pack_ops("large", {}, [], {"bench.op": op}, contents, threads=threads))
    del contents, artifacts, op
    begun, worked = time.perf_counter(), time.process_time()
    cache = CacheContents.open(folder / "cache")
    listed = len(cache.artifacts)
    opened = time.perf_counter() - begun
    verified = cache.verify()
    assert not verified.damaged and listed == arguments.artifacts
    taken = opened + verified.seconds
    made_of = f"{verified.files} files, {verified.stored / 1e6:.0f} MB, {verified.size / 1e6:.0f} MB decoded"
    made_of += f"; the index {opened:.1f} s; {time.process_time() - worked:.1f} s of processor time"
    return Result("checking a large cache", taken, "s", "<= 10", taken <= 10, made_of)


ALL: dict[str, Callable[[argparse.Namespace, Path], Result]] = {
    "workers": workers,
    "loop": loop,
    "nothing": nothing,
    "scratch": scratch_build,
    "size": size,
    "check": check,
}


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="leave out for all")
    parser.add_argument("--manifest", type=Path, default=GEMM, help="registered kernels to build (default: gemm.yaml)")
    parser.add_argument("--variants", type=int, default=32, help="how many of them are built")
    parser.add_argument("--nothing", type=int, default=1000, help="how many variants 'nothing' has")
    parser.add_argument("--rows", type=int, default=100, help="how many variants 'scratch' builds")
    parser.add_argument("--artifacts", type=int, default=10_000, help="how many artifacts 'check' has")
    parser.add_argument("--repeat", type=int, default=1, help="times; the median counts")
    parser.add_argument("--store", type=Path, help="a store for 'size', so that a second run compiles nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if unknown := set(arguments.which) - set(ALL):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}: there are {', '.join(ALL)}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles the compiler's own Python anew
    results = {}
    for name in arguments.which or ALL:
        with tempfile.TemporaryDirectory(prefix="precast-bench-") as folder:
            results[name] = ALL[name](arguments, Path(folder))
    if arguments.json:
        print(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))
    else:
        for r in results.values():
            mark = "ok" if r.holds else "MISSED"
            print(f"{r.name:32} {r.value:6.2f} {r.unit:2}  {r.bound:8} {mark:6}  ({r.made_of})")
    sys.exit(0 if all(r.holds for r in results.values()) else 1)


if __name__ == "__main__":
    main()

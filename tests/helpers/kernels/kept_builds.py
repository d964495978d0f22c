"""Workers of this process, plans and builds that know what the kept store knows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from precast.build.compile.worker import Worker
from precast.build.disk.memo import Memo
from precast.build.gpu.profile import Profiles
from precast.build.inputs.closure import Closures
from precast.build.link import elf
from precast.build.link.device_code import Cubin, cubins_in
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.plan import Plan
from precast.build.plan.planner import plan_of_files
from precast.build.plan.variant import Variant
from precast.build.store.key import variant_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Product
from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import kept_store, succeeded


def kept_notes() -> Memo:
    """What is known of installed modules: to read torch and all that it requires takes longer than most kernels."""
    return Store(kept_store()).notes


def planned(manifest: Path) -> Plan:
    """The plan of a manifest."""
    return plan_of_files([manifest], notes=kept_notes())


def worker_for(target: str, search: Sequence[Path]) -> Worker:
    """A worker for a target, which imports modules from these folders first."""
    parsed = Target.parse(target)
    return Worker(parsed, {}, search, Profiles().of(parsed), closures=Closures.here(search, kept_notes()))


def products(manifest: Path) -> Iterator[tuple[Variant, Product]]:
    """Build the variants of a manifest, each once for all tests: what compiling each of them made."""
    succeeded("build", manifest, "-o", manifest.with_suffix(".cache"), "--store", kept_store(), "-j", 1)
    plan, store, toolchain = planned(manifest), Store(kept_store()), find_toolchain()
    closures = Closures.here(plan.search, store.notes)
    for variant in plan.variants:
        key = variant_key(variant, toolchain, closures.sources.digest(variant.source))
        record = Lookup(store, closures.answers).find(key, plan.profiles.of(variant.target, variant.profile))
        assert record, f"{variant} has just been built"
        yield from ((variant, product) for product in record.products)


def built(manifest: Path) -> Iterator[tuple[str, Artifact, Cubin]]:
    """Build the variants of a manifest, each once for all tests: the op, the artifact and its device code."""
    folder = manifest.with_suffix(".cache")
    succeeded("build", manifest, "-o", folder, "--store", kept_store(), "-j", 1)
    cache, toolchain = Cache(folder), find_toolchain()
    for op in cache.index.ops:
        for artifact in cache.op(op).artifacts:
            (fatbin,) = elf.embedded(cache.read(artifact.blob))
            (cubin,) = cubins_in(toolchain, fatbin)
            yield op, artifact, cubin


def disassembled(cubin: Cubin, folder: Path) -> str:
    """The machine code of a kernel, as text."""
    nvdisasm = find_toolchain().nvdisasm
    assert nvdisasm is not None
    (folder / "k.cubin").write_bytes(cubin.code)
    words = [str(nvdisasm), "-c", str(folder / "k.cubin")]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout

"""Builds for several GPUs of one capability: what differs is built for each, and nothing else is built twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.build_run import Options
from precast.build.builder import build
from precast.build.cache.contents import CacheContents
from precast.build.cache.coverage import coverage
from precast.build.cache.merge import merge_caches
from precast.build.compile.executor import Local
from precast.build.gpu.profile import Profiles
from precast.build.inputs.closure import Closures
from precast.build.plan.plan import Plan
from precast.build.plan.planner import plan_of_files
from precast.build.plan.shard import Shard, part_of
from precast.build.report import Report
from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from tests.helpers.builds import HEAD, new_store
from tests.helpers.kernels.kept_builds import kept_notes, planned
from tests.helpers.resolutions import HERE

pytestmark = pytest.mark.usefixtures("without_torch")

MODULE = f"""{HEAD}
import os
from precast.kernels import kernel

compiled = compile_add


def sms(n: int):
    return compiled(n + cutlass.utils.HardwareInfo().get_device_multiprocessor_count())


def curious(n: int):
    info = cutlass.utils.HardwareInfo()
    count = info.get_device_multiprocessor_count()
    return compiled(n + count + (info.get_max_active_clusters(4) if count > 100 else 0))


def nothing(n: int):
    return compiled(n)


@kernel(op="persistent", speed_only=["max_active_clusters"])
def persistent(n: int):
    return compiled(n + cutlass.utils.HardwareInfo().get_max_active_clusters(2))


def environment(n: int):
    return compiled(n + int(os.environ["SMS"]))
"""
MANIFEST = """
version: 1
name: several
targets: [sm_90a]
profiles: {profiles}
path: [.]
kernels:
{kernels}
"""
SMS = '  - {compile: "user_gpus:sms", op: sms, config: {n: 1}}'
NOTHING = '  - {compile: "user_gpus:nothing", op: nothing, config: {n: 1}}'
PERSISTENT = '  - {compile: "user_gpus:persistent", config: {n: 1}}'
ENVIRONMENT = (
    '  - {compile: "user_gpus:environment", op: environment, config: {n: 1}, env: {SMS: "${target.sm_count}"}}'
)
FOUND = {"H200": 132, "H100 PCIe": 114, "H20": 78, "A slice": 16}


def plan_of(folder: Path, *kernels: str, profiles: str = "[H200, H20, H100 PCIe]") -> Plan:
    (folder / "user_gpus.py").write_text(MODULE)
    manifest = folder / "several.yaml"
    manifest.write_text(MANIFEST.replace("{profiles}", profiles).replace("{kernels}", "\n".join(kernels)))
    return planned(manifest)


def run(folder: Path, plan: Plan, cache: str = "cache") -> Report:
    report = build(plan, folder / cache, store=Store(new_store(folder / "store")), options=Options(jobs=1))
    assert report.complete, report.failed
    return report


def local(plan: Plan) -> Local:
    return Local(1, closures=Closures.here(plan.search, kept_notes()))


def artifacts(cache: Path, op: str) -> list[Artifact]:
    return list(Cache(cache).op(op).artifacts)


def files_of(cache: Path) -> dict[Path, bytes]:
    return {file.relative_to(cache): file.read_bytes() for file in cache.rglob("*") if file.is_file()}


def chosen(cache: Path, op: str, gpu: str) -> Any:
    """The artifact that a machine with this GPU is given for the one config there is; None where it is refused."""
    opened = Cache(cache)
    source = CachedOp(cache="several", precedence=0, index=opened.index, op=opened.op(op))
    count = FOUND[gpu]
    facts = {"multiprocessor_count": count, "max_active_clusters_2": count // 2}
    machine: Machine = replace(HERE, glibc=(9, 9), capability=Capability(9, 0), query=facts.get)
    found = resolve(Request(op=op, config={"n": 1}), machine, [source]).chosen
    return found and found.artifact


@pytest.mark.slow
def test_what_asks_is_built_for_each_gpu_and_what_asks_nothing_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMS, NOTHING)
    assert [str(v).partition(" for ")[2] for v in plan.variants] == 2 * [
        "sm_90a on H200", "sm_90a on H20", "sm_90a on H100 PCIe",
    ]  # fmt: skip
    report = run(tmp_path, plan)
    assert sorted(f"{v.op} {v.profile}" for v in report.built) == [
        "nothing H200",
        "sms H100 PCIe",
        "sms H20",
        "sms H200",
    ]
    assert sorted(f"{v.op} {v.profile}" for v in report.reused) == ["nothing H100 PCIe", "nothing H20"]
    assert [a.assumes for a in artifacts(tmp_path / "cache", "nothing")] == [None]
    three = artifacts(tmp_path / "cache", "sms")
    assert len({a.blob.sha256 for a in three}) == len({a.key for a in three}) == 3
    assert {a.rank for a in three} == {0}, "the author's order is that of the variants, whatever the GPU"
    needs = {a.provenance["profile"]: a.assumes for a in three}
    assert needs == {
        gpu: Assumptions(needs={"multiprocessor_count": FOUND[gpu]}, speed={}) for gpu in ("H200", "H20", "H100 PCIe")
    }
    for gpu in ("H200", "H20", "H100 PCIe"):
        assert chosen(tmp_path / "cache", "sms", gpu).provenance["profile"] == gpu
        assert chosen(tmp_path / "cache", "nothing", gpu) is not None
    assert chosen(tmp_path / "cache", "sms", "A slice") is None
    # The store has all of it, in any order of the GPUs, and the cache is the same.
    again = run(tmp_path, plan_of(tmp_path, SMS, NOTHING, profiles="[H20, H100 PCIe, H200]"), "again")
    assert again.built == () and len(again.reused) == 6
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "again")


@pytest.mark.slow
def test_gpus_that_give_the_same_answers_share_an_artifact(tmp_path: Path) -> None:
    report = run(tmp_path, plan_of(tmp_path, SMS, profiles="[H20, H200, H100]"))
    assert [v.profile for v in report.built] == ["H20", "H200"], "H100 and H200 have as many SMs"
    assert [v.profile for v in report.reused] == ["H100"]
    named = {str(a.provenance["profile"]) for a in artifacts(tmp_path / "cache", "sms")}
    assert named == {"H20", "['H100', 'H200']"}
    # A GPU more builds only what it changes.
    more = run(tmp_path, plan_of(tmp_path, SMS, profiles="[H20, H200, H100, H100 PCIe, GH200]"))
    assert [v.profile for v in more.built] == ["H100 PCIe"]


@pytest.mark.slow
def test_what_is_asked_may_depend_on_an_answer(tmp_path: Path) -> None:
    """The store remembers the questions of each GPU: neither is built again for the other's."""
    plan = plan_of(tmp_path, SMS.replace("sms", "curious"), profiles="[H200, H20]")
    assert len(run(tmp_path, plan).built) == 2
    assert len({len(a.provenance["assumed"]) for a in artifacts(tmp_path / "cache", "curious")}) == 2
    for cache in ("again", "and again"):
        assert run(tmp_path, plan, cache).built == ()


@pytest.mark.slow
def test_what_the_author_says_and_what_the_manifest_says_of_speed(tmp_path: Path) -> None:
    plain = SMS.replace("op: sms,", "op: sms, speed_only: multiprocessor_count,")
    run(tmp_path, plan_of(tmp_path, plain, PERSISTENT, profiles="H200"))
    (persistent,), (sms,) = (artifacts(tmp_path / "cache", op) for op in ("persistent", "sms"))
    assert persistent.assumes == Assumptions(needs={}, speed={"max_active_clusters_2": 66})
    assert sms.assumes == Assumptions(needs={}, speed={"multiprocessor_count": 132})
    assert chosen(tmp_path / "cache", "persistent", "H20") == persistent
    # What it says is no input of the compiler: a manifest that says otherwise builds nothing, and changes the cache.
    assert run(tmp_path, plan_of(tmp_path, SMS, PERSISTENT, profiles="H200")).built == ()
    assert artifacts(tmp_path / "cache", "sms")[0].assumes == Assumptions(needs={"multiprocessor_count": 132}, speed={})
    assert chosen(tmp_path / "cache", "sms", "H20") is None


@pytest.mark.slow
def test_a_fact_that_comes_in_by_the_environment_is_assumed_too(tmp_path: Path) -> None:
    report = run(tmp_path, plan_of(tmp_path, ENVIRONMENT, profiles="[H200, H20]"))
    assert len(report.built) == 2
    for gpu in ("H200", "H20"):
        found = chosen(tmp_path / "cache", "environment", gpu)
        assert found.assumes == Assumptions(needs={"multiprocessor_count": FOUND[gpu]}, speed={})
        assert found.provenance["env"] == {"SMS": str(FOUND[gpu])}


@pytest.mark.slow
def test_shards_merges_checks_and_reproductions_of_such_a_cache(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMS, NOTHING)
    run(tmp_path, plan)
    whole = files_of(tmp_path / "cache")
    parts = [part_of(plan, Shard(n, 2)) for n in (1, 2)]
    assert sorted(len(part.variants) for part in parts) == [3, 3], "all GPUs of a variant together, and once"
    for n, part in enumerate(parts, 1):
        run(tmp_path, part, f"part{n}")
    merge_caches([tmp_path / "part1", tmp_path / "part2"], tmp_path / "merged")
    assert files_of(tmp_path / "merged") == whole
    # A cache of one GPU each, too.
    for gpu in ("H200", "H20"):
        run(tmp_path, plan_of(tmp_path, SMS, NOTHING, profiles=gpu), gpu)
    merge_caches([tmp_path / "H200", tmp_path / "H20"], tmp_path / "both")
    assert len(artifacts(tmp_path / "both", "sms")) == 2 and len(artifacts(tmp_path / "both", "nothing")) == 1
    for gpu in ("H200", "H20"):
        assert chosen(tmp_path / "both", "sms", gpu).provenance["profile"] == gpu

    found = coverage(plan, CacheContents.open(tmp_path / "cache"))
    assert (found.complete, found.present, found.extra) == (True, 4, ()), "3 + 1"
    lacking = coverage(plan_of(tmp_path, SMS, NOTHING), CacheContents.open(tmp_path / "both"))
    assert [m.variant.profile for m in lacking.missing] == ["H100 PCIe"] and lacking.present == 3
    unasked = coverage(plan_of(tmp_path, SMS, NOTHING, profiles="H20"), CacheContents.open(tmp_path / "both"))
    assert unasked.complete and [json.loads(e.assumed) for e in unasked.extra] == [{"multiprocessor_count": 132}]

    reproduce = pytest.importorskip("precast.measure.comparison.reproduce").reproduce
    again = reproduce(plan, tmp_path / "cache", executor=local(plan))
    assert again.holds and len(again.same) == 4, again
    fewer = plan_of(tmp_path, SMS, NOTHING, profiles="[H20, H100 PCIe]")
    other = reproduce(fewer, tmp_path / "both", executor=local(fewer))
    assert [json.loads(name.assumed) for name in other.unasked] == [{"multiprocessor_count": 132}]
    assert not other.different and len(other.same) == 2


@pytest.mark.slow
def test_the_command_line_takes_several(tmp_path: Path) -> None:
    (tmp_path / "user_gpus.py").write_text(MODULE)
    plan_of(tmp_path, SMS)
    plan = plan_of_files([tmp_path / "several.yaml"], profiles=Profiles.named(["H20", "B200", "H100 PCIe"][::2]))
    assert [v.profile for v in plan.variants] == ["H20", "H100 PCIe"], "in place of the manifest's"
    (one,) = plan_of_files([tmp_path / "several.yaml"], profiles=Profiles.named(["H20"])).variants
    assert (one.profile, "profile" in one.to_json(), "H20" in str(one)) == ("", False, False)

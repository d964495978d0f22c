"""Device code of every architecture: built, taken out of the cache, and asked what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.link import elf
from precast.build.link.device_code import cubins_in
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.planner import plan_of_files
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import precast

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100f", "sm_103a", "sm_120a")  # each of them has a worker of its own
THOR = ("sm_110a",)
pytestmark = pytest.mark.usefixtures("without_torch")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache with one kernel for each architecture, and what the build said."""
    folder = tmp_path_factory.mktemp("architectures")
    manifest = folder / "each.yaml"
    listed = ", ".join((*TARGETS, *THOR))
    manifest.write_text(
        f"version: 1\nname: each\ntargets: [{listed}]\nkernels:\n  - {{kernel: scale, config: {{dtype: [bfloat16]}}}}\n"
    )
    done = precast(folder / "store", "build", manifest, "-o", folder / "cache", "-j", "1")
    return folder / "cache", done.stdout + done.stderr


@pytest.mark.slow
def test_the_device_code_of_each_says_what_it_was_built_for(built: tuple[Path, str]) -> None:
    cache = Cache(built[0])
    found = {}
    for artifact in cache.op("scale").artifacts:
        (fatbin,) = elf.embedded(cache.read(artifact.blob))
        (cubin,) = cubins_in(find_toolchain(), fatbin)
        found[str(artifact.target)] = str(cubin.target)
        assert artifact.resources[0].registers > 0
        assert not artifact.resources[0].stack and not artifact.resources[0].local, "nothing spills"
    assert {target: found.get(target) for target in TARGETS} == {target: target for target in TARGETS}


@pytest.mark.slow
def test_code_that_calls_thor_by_its_old_number_is_not_taken(built: tuple[Path, str]) -> None:
    """The compiler of CUDA 12 calls 11.0 10.1. That of CUDA 13 does not."""
    held = {str(a.target) for a in Cache(built[0]).op("scale").artifacts}
    for target in THOR:
        if target not in held:
            assert f"not {target}: CUDA 12 has another number for that GPU" in built[1]
            assert "build with the compiler of CUDA 13" in built[1]


@pytest.mark.slow
def test_a_manifest_is_planned_for_another_target(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(
        "version: 1\nname: m\ntargets: [sm_90a, sm_100a]\nkernels:\n"
        "  - {kernel: scale, config: {dtype: [bfloat16]}}\n"
        "  - {kernel: scale, config: {dtype: [float16]}, targets: [sm_90a]}\n"
        "  - {kernel: quantize_fp8, config: {dtype: [bfloat16], width: [1024], block: [token]}, targets: [sm_100a]}\n"
    )
    plan = plan_of_files([manifest], retarget=["sm_100a=sm_86"])
    assert [(v.op, str(v.target)) for v in plan.variants] == [("scale", "sm_86")]
    assert [(s.variant.op, s.reason) for s in plan.skipped] == [("quantize_fp8", "its kernel is for sm_89+")]
    both = plan_of_files([manifest], retarget=["sm_100a=sm_120a", "sm_90a=sm_103a"])
    assert sorted((v.op, str(v.target)) for v in both.variants) == [
        ("quantize_fp8", "sm_120a"), ("scale", "sm_103a"), ("scale", "sm_103a"), ("scale", "sm_120a")
    ]  # fmt: skip
    assert {str(v.target) for v in plan_of_files([manifest]).variants} == {"sm_90a", "sm_100a"}

"""The profile of a GPU, as a child process reads it; and the error where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.errors import ToolError
from precast.build.gpu.measure import measure, profile_from
from precast.build.gpu.profile import Profiles, profile_named
from precast.build.plan.planner import plan_of_files
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError

H200 = {
    "name": "NVIDIA H200",
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "multiprocessor_count": 132,
    "max_shared_memory_per_block_optin": 232448,
    "max_shared_memory_per_multiprocessor": 233472,
    "max_threads_per_multiprocessor": 2048,
    "max_portable_cluster_size": 8,
    "max_active_clusters_4": 31,
    "total_memory": 150_000_000_000,
}


def reply(**facts: object) -> dict[str, object]:
    return {"facts": {**H200, **facts}}


def test_a_device_answers_for_its_targets_and_says_that_it_was_there() -> None:
    profile = profile_from(reply())
    assert str(profile) == "NVIDIA H200, read from a device"
    profiles = Profiles().over([profile])
    assert profiles.of(Target.parse("sm_90a")).answers(["max_active_clusters_4", "total_memory"]) == {
        "max_active_clusters_4": 31,
        "total_memory": 150_000_000_000,
    }
    assert profiles.of(Target.parse("sm_100a")).name == "B200"
    assert {fact.source for fact in profile.facts.values()} == {"read from a device"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "there is no CUDA device here"}, "there is no CUDA device here"),
        ({}, "reading the GPU's properties failed"),
        ({"facts": []}, "reading the GPU's properties failed"),
        ({"facts": {"name": "NVIDIA H200"}}, "reading the GPU's properties failed"),
        (reply(multiprocessor_count=[1]), "reading the GPU's properties failed"),
        (reply(multiprocessor_count=True), "reading the GPU's properties failed"),
        (reply(compute_capability_major="9"), "reading the GPU's properties failed"),
    ],
)
def test_a_missing_device_or_a_malformed_answer_is_an_error(answer: dict[str, object], said: str) -> None:
    with pytest.raises(ToolError, match=r"(?m)--profile$") as caught:
        profile_from(answer)
    assert said in str(caught.value)


def test_without_a_gpu_the_child_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(ToolError, match="CUDA"):
        measure()


@pytest.mark.slow
def test_a_device_of_another_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "version: 1\nname: m\ntargets: [sm_100a]\nkernels:\n  - {kernel: scale, config: {dtype: float32}}\n"
    )
    with pytest.raises(TargetError, match=r"NVIDIA H200 has capability 9\.0, and this build is for sm_100a"):
        plan_of_files([tmp_path / "m.yaml"], profiles=Profiles().over([profile_from(reply())]))


def test_several_gpus_of_one_capability() -> None:
    target, chosen = Target.parse("sm_90a"), Profiles.named(["H200", "B200", "H20", "H200"])
    assert [p.name for p in chosen.all_of(target)] == ["H200", "H20"]
    assert (chosen.of(target).name, chosen.of(target, "H20").name) == ("H200", "H20")
    assert [p.name for p in chosen.over([profile_named("H100 PCIe")]).all_of(target)] == ["H100 PCIe"]
    assert (chosen.chosen_for(Target.parse("sm_80")), chosen.all_of(Target.parse("sm_80"))[0].name) == ((), "A100")
    with pytest.raises(TargetError, match="H20 is chosen twice: choose it once"):
        Profiles().over([profile_named("H20"), profile_named("H20")])
    with pytest.raises(TargetError, match="did you mean 'B200'"):
        Profiles.named(["b200"])

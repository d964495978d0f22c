"""The table of GPUs: every architecture has a profile, every number a source, and no target is made up."""

from __future__ import annotations

import pytest

from precast.build.gpu.gpu_table import GPUS, TABLE
from precast.build.gpu.profile import facts_of, profile_named, profile_of
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError

TARGETS = [
    "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a",
    "sm_107f", "sm_110a",
    "sm_120a", "sm_120f", "sm_121a",
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_every_architecture_has_a_gpu(target: str) -> None:
    profile = profile_of(Target.parse(target))
    assert profile.capability == Target.parse(target).capability
    assert int(facts_of(Target.parse(target))["sm_count"]) > 0


@pytest.mark.parametrize("name", GPUS)
def test_every_number_has_a_source(name: str) -> None:
    profile = profile_named(name)
    assert all(len(fact.source) > 8 for fact in profile.facts.values())
    sms, most = profile.answer("multiprocessor_count"), profile.answer("max_active_clusters_1")
    assert sms == most and isinstance(sms, int)
    for size in range(2, 17 if profile.answer("cluster_launch") else 2):
        clusters = profile.answer(f"max_active_clusters_{size}")
        assert isinstance(clusters, int) and 0 < clusters <= sms // size


def test_a_block_has_less_shared_memory_than_its_sm() -> None:
    for facts in TABLE.values():
        block, sm = (
            facts["max_shared_memory_per_block_optin"].value,
            facts["max_shared_memory_per_multiprocessor"].value,
        )
        assert isinstance(block, int) and isinstance(sm, int) and block + 1024 == sm


@pytest.mark.parametrize(
    ("target", "instead"),
    [("sm_80a", "write sm_80"), ("sm_89f", "write sm_89"), ("sm_90f", "write sm_90a or sm_90"), ("sm_86a", "sm_90a")],
)
def test_a_target_that_cuda_has_not_is_refused_with_one_that_it_has(target: str, instead: str) -> None:
    with pytest.raises(TargetError, match=f"there is no {target}.*{instead}"):
        profile_of(Target.parse(target))


def test_a_gpu_that_nothing_is_known_of() -> None:
    with pytest.raises(TargetError, match="there is no profile of a GPU for sm_75"):
        profile_of(Target.parse("sm_75"))

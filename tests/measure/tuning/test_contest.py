"""Contests: what competes with what, and on which problems, by a cache and its manifests alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.manifest import parse_manifest
from precast.loader.contract.format.artifact import Artifact
from precast.loader.resolve.cache import Cache
from precast.measure.tuning.contest import Contest, contests
from tests.helpers.caches import Native, demo

HEAD = "{version: 1, name: demo, targets: sm_90a, kernels: [%s]}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    native = tmp_path_factory.mktemp("cache")
    return Cache(demo(Native(native)).write(native / "demo"))


def found(cache: Cache, *entries: str, refuse: int = 0) -> list[Contest]:
    manifest = parse_manifest((HEAD % ", ".join(entries)).encode(), Path("m.yaml"))

    def obstacle(artifact: Artifact) -> str:
        return "not here" if artifact.config.get("threads") == refuse else ""

    return contests(cache, [manifest], obstacle)


def test_candidates_that_differ_in_tuned_keys_compete_in_the_authors_order(cache: Cache) -> None:
    one, two = found(cache, "{kernel: scale, config: {dtype: [half, bf16]}, tuned: {threads: [128, 256]}}")
    assert [dict(c.config)["dtype"] for c in (one, two)] == ["bfloat16", "float16"]
    assert [dict(c.tuned) for c in one.contestants] == [{"threads": 256}, {"threads": 128}], "by their ranks"
    assert one.name != two.name and str(one.target) == "sm_90a"
    assert len({c.code for c in one.contestants}) == 2
    assert one.problems == ()


def test_only_what_the_manifest_asks_for_and_this_gpu_runs_competes(cache: Cache) -> None:
    (one,) = found(cache, "{kernel: scale, config: {dtype: bf16}, tuned: {threads: [128, 64]}}")
    assert [dict(c.tuned) for c in one.contestants] == [{"threads": 128}]
    (one,) = found(cache, "{kernel: scale, config: {dtype: bf16}, tuned: {threads: [128, 256]}}", refuse=256)
    assert [dict(c.tuned) for c in one.contestants] == [{"threads": 128}]
    assert found(cache, "{kernel: scale, config: {dtype: bf16}, tuned: {threads: 128}, targets: sm_80}") == []
    assert found(cache, "{kernel: other, config: {n: 1}}") == []


def test_the_problems_of_all_entries_of_a_contest_count_once(cache: Cache) -> None:
    entry = "{kernel: scale, config: {dtype: bf16}, tuned: {threads: %d}, problems: [{n: [8, %d]}]}"
    (one,) = found(cache, entry % (256, 16), entry % (128, 32))
    assert [dict(p) for p in one.problems] == [{"n": 8}, {"n": 16}, {"n": 32}]


def test_a_function_without_an_op_is_found_by_what_was_built_from_it(cache: Cache) -> None:
    assert found(cache, '{compile: "mine:scale", config: {dtype: bf16}, tuned: {threads: 128}}') == []


def test_a_key_that_the_op_of_the_cache_does_not_have_is_told_at_its_place(cache: Cache) -> None:
    with pytest.raises(ManifestError, match=r"m.yaml:1:.*has no config key 'stages'"):
        found(cache, "{kernel: scale, config: {dtype: bf16}, tuned: {stages: 2}}")

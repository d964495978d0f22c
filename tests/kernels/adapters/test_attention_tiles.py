"""Attention on Hopper with chosen tiles: what fits, and that blocks that stay compute every tile once, in any order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from precast.kernels.adapters.attention import forward_tiles
from precast.kernels.adapters.attention.forward_tiles import MEMORY, REGISTERS, Tiles
from precast.kernels.adapters.attention.library import FLASH
from precast.kernels.adapters.pinned_package import PackageError, PinnedPackage
from precast.kernels.adapters.quack.library import QUACK
from precast.loader.contract.format.target import Target
from tests.helpers.builds import kept_store, precast, succeeded

OBSTACLE = FLASH.obstacle() or QUACK.obstacle()
installed = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
PLAIN: dict[str, Any] = {"heads_per_kv": 1, "pack": True, "decode": False, "layout": "dense"}
SIZES = [{"head_dim": 64}, {"head_dim": 128}, {"head_dim": 192, "head_dim_v": 128}]


@pytest.mark.parametrize("sizes", SIZES, ids=["64", "128", "192-128"])
def test_what_is_not_refused_fits_a_multiprocessor(sizes: dict[str, Any]) -> None:
    taken = 0
    for queries in (128, 192):
        for keys in forward_tiles.KEYS:
            for stages in (1, 2, 3, 4):
                for resident in (False, True):
                    config = {**PLAIN, **sizes, "queries_tile": queries, "keys_tile": keys, "stages": stages}
                    config["resident"] = resident
                    tiles = Tiles.of(config)
                    fits = tiles.memory <= MEMORY and tiles.registers <= REGISTERS[queries // 64]
                    alias = resident and not tiles.in_registers and keys != tiles.size_v
                    assert (forward_tiles.refusal(config) is None) is (fits and not alias), tiles
                    taken += fits
    assert taken > 20


def test_results_of_a_resident_block_have_memory_of_their_own_or_that_of_the_weights() -> None:
    config = {**PLAIN, "head_dim": 128}
    plain, resident = Tiles.of(config), Tiles.of({**config, "resident": True})
    assert resident.memory - plain.memory == 2 * 128 * 128
    large, stays = (Tiles.of({**config, "queries_tile": 192, "resident": r}) for r in (False, True))
    assert not large.in_registers and large.memory == stays.memory > 2 * 192 * 128 * 4


def test_without_a_choice_the_library_chooses() -> None:
    config = {**PLAIN, "head_dim": 100, "layout": "paged"}  # neither is for chosen tiles
    assert not forward_tiles.chosen(config) and forward_tiles.refusal(config) is None
    for choice in ({"stages": 2}, {"resident": True}, {"keys_tile": 64}, {"overlap": False}):
        assert forward_tiles.chosen({**config, **choice}) and forward_tiles.refusal({**config, **choice})


HOPPER = Target.parse("sm_90a")


def work(queries: int, *, length: int, **config: Any) -> float:
    """Of a problem, as the loader estimates it on an H200."""
    tile = forward_tiles.tile({**PLAIN, "head_dim": 64, "causal": True, "queries_tile": queries, **config}, HOPPER)
    tiling = tile.on({"max_active_clusters_1": 132}.get) if tile else None
    assert tiling
    return tiling.work({"batch": 2, "queries": length, "keys": length, "kv_heads": 8})


def test_a_length_that_tiles_round_up_more_is_more_work_for_them() -> None:
    assert work(192, length=900) == work(192, length=768) * 5 / 4 < work(192, length=1024)
    assert work(192, length=1024) / work(192, length=900) > work(128, length=1024) / work(128, length=900)


def test_packed_heads_fill_a_tile_with_fewer_queries_of_each() -> None:
    assert work(128, length=100, heads_per_kv=4) == 4 * work(128, length=32, heads_per_kv=4)
    assert work(128, length=100, heads_per_kv=4, pack=False) == work(128, length=32, heads_per_kv=4, pack=False)


def test_tiles_of_one_length_take_whole_waves_and_heads_that_are_not_packed_share_them() -> None:
    config = {**PLAIN, "head_dim": 128, "causal": False, "heads_per_kv": 4, "pack": False}
    tile = forward_tiles.tile(config, HOPPER)
    assert tile and tile.parts == 4 and tile.whole_waves
    assert not forward_tiles.tile({**config, "causal": True}, HOPPER).whole_waves  # type: ignore[union-attr]
    assert not forward_tiles.tile({**config, "layout": "varlen"}, HOPPER).whole_waves  # type: ignore[union-attr]


def test_tiles_are_known_for_many_queries_on_hopper_only() -> None:
    config = {**PLAIN, "head_dim": 128, "causal": True}
    assert forward_tiles.tile(config, HOPPER) is not None
    assert forward_tiles.tile(config, Target.parse("sm_100a")) is None
    for other in ({"decode": True}, {"layout": "paged"}):
        assert forward_tiles.tile({**config, **other}, HOPPER) is None


def test_replaced_names_of_a_module_come_back_after_an_error_too() -> None:
    package = PinnedPackage(distribution="pytest", version=pytest.__version__, extra="test")
    module, own = package.module("pytest"), pytest.approx
    with pytest.raises(KeyError), package.replaced("pytest", approx=int):
        assert module.approx is int
        raise KeyError
    assert module.approx is own
    with pytest.raises(PackageError, match="has no nosuch"), package.replaced("pytest", nosuch=1):
        pass
    assert not hasattr(module, "nosuch")


MANIFEST = """version: 1
name: resident
targets: [sm_90a]
kernels:
  - kernel: attention
    config: {dtype: bfloat16, head_dim: 64, heads_per_kv: 2, causal: true, layout: [dense, varlen], lse: true}
    tuned: {resident: true, pack: [false, true], queries_tile: 128, stages: 1}
    exclude: [{layout: dense, pack: true}, {layout: varlen, pack: false}]
"""
GPU = "H200 MIG 1g.18gb"  # of few multiprocessors
# More than twice as many tiles as multiprocessors: blocks take two or three, of several heads and sequences.
PROBLEMS = {
    "dense": "batch=2,queries=150,keys=200,kv_heads=5,padding=0",
    "varlen": "batch=6,queries=150,keys=150,kv_heads=2,padding=0",
}


@installed
@pytest.mark.slow
def test_blocks_that_stay_compute_every_tile(tmp_path: Path) -> None:
    (tmp_path / "resident.yaml").write_text(MANIFEST)
    cache = tmp_path / "cache"
    built = ["build", tmp_path / "resident.yaml", "-o", cache, "--store", kept_store(), "-j", 1, "--profile", GPU]
    succeeded(*built, "--keep", "ptx")
    listed = json.loads(succeeded("list", cache, "--json").stdout)
    assert len(listed["artifacts"]) == 2
    for row in listed["artifacts"]:
        problem = PROBLEMS[row["config"]["layout"]]
        options = ["--emulate", "--most", 1 << 24, "--key", row["key"], "--problem", problem, "--seeds", 0]
        found = precast(kept_store(), "verify", cache, *options)
        assert found.returncode == 0 and "1 variant verified by emulation, 0 left out" in found.stdout, found.stdout

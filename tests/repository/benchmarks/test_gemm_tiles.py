"""benchmarks/gemm_tiles.py: its estimates follow the waves of tiles, and what it names can be built."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.own.matrix.gemm_sm90a import blocking_of
from tests.helpers.source_tree import ROOT


def module() -> ModuleType:
    """A file of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location("gemm_tiles", ROOT / "benchmarks" / "gemm_tiles.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["gemm_tiles"] = made  # its dataclasses look for it there
    spec.loader.exec_module(made)
    return made


TILES = module()
EVERY = {width: list(TILES.blockings(width)) for width in (1, 2)}


@given(st.sampled_from(EVERY[1] + EVERY[2]), st.integers(1, 2048), st.integers(1, 4), st.integers(1, 64))
def test_more_work_never_takes_less(one: object, m: int, wide: int, deep: int) -> None:
    size = TILES.Size(m, 4096 * wide, 256 * deep)
    took = TILES.microseconds(one, size)
    assert took >= TILES.EMPTY
    assert TILES.microseconds(one, TILES.Size(size.m + 64, size.n, size.k)) >= took
    assert TILES.microseconds(one, TILES.Size(size.m, size.n, size.k + 256)) >= took


def test_a_row_more_than_a_wave_holds_costs_a_wave() -> None:
    one = next(t for t in EVERY[2] if (t.tokens, t.rows, t.split, t.sharing, t.residents) == (200, 192, 1, 1, 1))
    full, over = (TILES.microseconds(one, TILES.Size(m, 24576, 4096)) for m in (200, 201))
    assert over > 1.6 * full


def test_a_cover_gets_better_with_each_tile_and_ends_at_the_best_of_all() -> None:
    sizes = [TILES.Size(m, n, 4096) for m in (96, 352, 800) for n in (4096, 6144)]
    times = [[TILES.microseconds(one, size) for size in sizes] for one in EVERY[1][::9]]
    steps = list(TILES.cover(times, 8))
    assert len({row for row, _, _ in steps}) == len(steps)
    worst = [most for _, _, most in steps]
    assert worst == sorted(worst, reverse=True)
    assert list(TILES.cover(times, len(times)))[-1][1:] == (1.0, 1.0)


@pytest.mark.slow
def test_what_is_printed_is_a_row_of_a_manifest_that_can_be_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert TILES.main(["--dtype", "float8_e4m3fn", "--count", "3"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{len(EVERY[1])} tiles")
    for line in lines:
        row = yaml.safe_load(line[: line.index("}") + 1])
        assert blocking_of({"dtype": "float8_e4m3fn", "pingpong": False, **row}).refusal() is None
    assert len(lines) == 3

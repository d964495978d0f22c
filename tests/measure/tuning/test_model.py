"""Modelled times: what a GPU's numbers and a kernel's tiles say, where nobody has measured."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.measurements.tuning_file import TuningFile
from precast.kernels.authoring.declare import Cost, Declaration, declaration_of
from precast.kernels.authoring.registry import find, load
from precast.kernels.authoring.tile import Tile
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError
from precast.measure.tuning.contest import Contest, Contestant
from precast.measure.tuning.model import Model, microseconds
from precast.measure.tuning.speeds import Speeds, speeds_named

SM100 = Target.parse("sm_100a")
SHIPPED = Path(__file__).parents[3] / "manifests" / "tuning" / "gemm-h200.json"


def cost(config: Any, p: Any) -> Cost:
    return Cost(flops=2 * p["m"] * p["n"] * p["k"], bytes=2 * (p["m"] * p["k"] + p["k"] * p["n"] + p["m"] * p["n"]))


def tile(config: Any, target: Target = SM100) -> Tile:
    return Tile(sizes={"m": config["rows"], "n": 128})


PRODUCT = Declaration(
    op="product", keys=(), cost=cost, tile=tile, problems=lambda config: [{"m": 8, "n": 8, "k": 8, "padding": 0}]
)
SPEEDS = speeds_named("B200")


def time(rows: int, m: int, n: int = 4096, k: int = 4096, speeds: Speeds = SPEEDS) -> float:
    config: dict[str, Any] = {"rows": rows, "dtype": "bfloat16"}
    cut = tile(config)
    tiling = cut.on({"max_active_clusters_1": 148}.get)
    assert tiling
    return microseconds(PRODUCT, config, {"m": m, "n": n, "k": k, "padding": 0}, cut, tiling, speeds)


def test_a_tile_that_is_mostly_padding_is_slow_and_a_large_one_is_fast_where_it_is_full() -> None:
    assert time(64, m=64 * 148, n=128) < time(256, m=64 * 148, n=128)
    assert time(256, m=8192, n=8192) < time(64, m=8192, n=8192)


def test_a_last_wave_that_is_almost_empty_is_slow() -> None:
    full, behind = time(128, m=128 * 148, n=128), time(128, m=128 * 149, n=128)
    assert behind > 1.8 * full - 2


def test_few_rows_take_as_long_as_the_weights_take_to_be_read() -> None:
    least = (28672 * 4096 * 2) / SPEEDS.bytes
    assert least < time(64, m=8, n=28672) < 2 * least


@given(st.integers(1, 1 << 16), st.sampled_from([64, 128, 256]), st.sampled_from(["H100", "H200", "B200"]))
def test_more_rows_never_take_less(m: int, rows: int, gpu: str) -> None:
    speeds = speeds_named(gpu)
    assert 0 < time(rows, m, speeds=speeds) <= time(rows, m + 1, speeds=speeds)


def test_a_group_has_a_time_of_each_candidate_for_each_problem() -> None:
    model = Model.of("B200")
    contest = Contest(
        op="product",
        config={"dtype": "bfloat16"},
        target=Target.parse("sm_100a"),
        contestants=tuple(Contestant(key=f"{n}" * 64, tuned={"rows": n}, code=f"{n:016x}") for n in (1, 2)),
    )
    problems = [{"m": m, "n": 4096, "k": 4096} for m in (8, 16)]
    group = model.group(contest, problems, PRODUCT)
    assert group is not None and [len(one.times) for one in group.candidates] == [2, 2]
    file = TuningFile((model.gpu,), (group,))
    assert TuningFile.decode(file.encode()) == file
    assert "modelled" in file.gpus[0].name and not file.gpus[0].driver
    without = Declaration(op="product", keys=(), cost=cost)
    assert model.group(contest, problems, without) is None
    for cut in (Tile(sizes={"m": 128}, parts=4), Tile(sizes={"m": 128}, whole_waves=False)):
        unequal = Declaration(op="product", keys=(), cost=cost, tile=lambda config, target, cut=cut: cut)  # type: ignore[misc]
        assert model.group(contest, problems, unequal) is None, cut


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(TargetError, match="there are no speeds of a GPU 'B20'; did you mean 'B200'"):
        speeds_named("B20")
    with pytest.raises(TargetError, match=r"no rate of int4 in the data sheet of H200 SXM.*: add it"):
        speeds_named("H200").flops("int4")


def test_it_is_held_against_what_was_measured() -> None:
    """On the H200, where times are known: the modelled choice is nearly the best, and no single candidate is."""
    file = TuningFile.decode(SHIPPED.read_bytes())
    gemm, speeds = declaration_of(load(find("gemm"))), speeds_named("H200")
    assert gemm.tile and gemm.cost
    group = next(g for g in file.groups if g.config["dtype"] == "bfloat16" and g.config["out_dtype"] == "bfloat16")
    shares = []
    for sizes in group.problems[::5]:
        times = [(one, one.times[sizes]) for one in group.candidates if sizes in one.times and one.tiling]
        problem = {**dict(sizes), "padding": 0}

        def modelled(case: Any, problem: Any = problem) -> float:
            assert gemm is not None and gemm.tile is not None
            config = {**group.config, **case[0].tuned}
            cut = gemm.tile(config, group.target)
            assert cut is not None
            return microseconds(gemm, config, problem, cut, case[0].tiling, speeds)

        shares.append(min(t for _, t in times) / min(times, key=modelled)[1])
    assert math.exp(statistics.fmean(map(math.log, shares))) > 0.9

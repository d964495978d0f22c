"""Choosing between measured problems: by the rows nearest to the one at hand, and by how full the last wave is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.estimate import Choice, Estimate
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table import MOST_ROWS, Table, measurements, read_tables
from precast.loader.contract.format.tuning.table_writer import tables_of
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import FormatError
from tests.helpers.resolutions import fastest

HOPPER = Capability(9, 0)
WIDE, NARROW, SPARE = "a" * 64, "b" * 64, "c" * 64
KEYS = (WIDE, NARROW)
TILINGS = {WIDE: Tiling(tile={"m": 256}, at_once=10), NARROW: Tiling(tile={"m": 128}, at_once=10)}


def row(wide: float | None, narrow: float | None, tilings: Any = TILINGS, **problem: int) -> Measured:
    times = {key: time for key, time in ((WIDE, wide), (NARROW, narrow)) if time is not None}
    known = {key: tiling for key, tiling in tilings.items() if key in times}
    return Measured(gpu="NVIDIA H200", capability=HOPPER, problem=problem, times=times, tilings=known)


def choose(table: list[Measured], **problem: int) -> Choice:
    choice = fastest(table, problem, KEYS, gpu="NVIDIA H200", capability=HOPPER)
    assert choice is not None
    return choice


def test_a_last_wave_that_is_almost_empty_is_slow() -> None:
    """2560 rows are one wave of wide tiles, and 2561 are two; narrow ones take two waves for both, and are half full
    behind."""
    table = [row(100.0, 110.0, m=2560)]
    assert choose(table, m=2560).key == WIDE
    assert choose(table, m=2561).key == NARROW, "the wide ones would take almost twice as long"
    assert choose([row(100.0, 110.0, {}, m=2560)], m=2561).key == WIDE, "nobody told how they cut the rows"


def test_a_launch_takes_its_time_whatever_its_work() -> None:
    """The wave more that the wide tiles take is of the rest, which is 4 of 10 us, and nearly all of 1000."""
    assert choose([row(10.0, 11.1, m=2560)], m=2561).key == WIDE
    assert choose([row(1000.0, 1110.0, m=2560)], m=2561).key == NARROW


def test_a_choice_does_not_depend_on_earlier_ones() -> None:
    """On the other GPU WIDE has another tiling; which of them is the nearest depends on the problem."""
    spread = Tiling(tile={"m": 256}, at_once=1)
    near = row(100.0, 160.0, m=2560)
    other = Measured(
        gpu="NVIDIA H100", capability=HOPPER, problem={"m": 300_000}, times={WIDE: 5e5, NARROW: 4e5},
        tilings={WIDE: spread, NARROW: TILINGS[NARROW]},
    )  # fmt: skip
    asked = [{"m": m} for m in (2561, 290_000, 11_000, 30_000, 40_000, 60_000)]

    def estimate() -> Estimate:
        return Estimate(tables_of([near, other], {}), ["m"], KEYS, gpu=None, capability=HOPPER)

    kept = estimate()
    for problem in (*asked, *asked[::-1]):
        for m in (problem["m"], problem["m"] * 3 // 2):
            assert kept.fastest({"m": m}) == estimate().fastest({"m": m})


def test_one_unknown_tiling_switches_all_of_them_off() -> None:
    """A time that was carried over by waves and one that was not cannot be compared."""
    assert choose([row(100.0, 110.0, {WIDE: TILINGS[WIDE]}, m=2560)], m=2561).key == WIDE


def test_the_very_problem_is_chosen_for_by_its_own_row() -> None:
    near = [row(1.0, 50.0, {}, m=m) for m in range(90, 110) if m != 100]
    choice = choose([*near, row(10.0, 9.0, {}, m=100)], m=100)
    assert choice.key == NARROW and choice.exact and str(choice) == "9 us at m=100 on NVIDIA H200"


def test_a_row_says_less_of_a_variant_whose_tiles_fill_their_waves_otherwise() -> None:
    """NARROW is twice as slow in the nearest row, where its tiles take a wave more for one row of the problem: that
    is carried over, but the row behind it, which has as many waves as are asked for, knows better."""
    near, behind = row(1000.0, 2000.0, m=1281), row(1000.0, 990.0, m=1180)
    assert choose([near, behind], m=1270).key == NARROW
    assert choose([near], m=1270).key == WIDE


def test_axes_that_no_tiling_cuts_count_half() -> None:
    """The row of another m is nearer than that of another k, unless tilings say that k is not cut."""
    whole = dict.fromkeys(KEYS, Tiling(tile={"m": 1 << 20}, at_once=1))

    def table(tilings: Any) -> list[Measured]:
        return [row(1000.0, 2000.0, tilings, m=1024, k=4096), row(2000.0, 1000.0, tilings, m=2048, k=1500)]

    assert choose(table({}), m=2048, k=4096).key == WIDE
    assert choose(table(whole), m=2048, k=4096).key == NARROW


def test_rows_around_outvote_one_that_was_disturbed() -> None:
    around = [row(1.0, 2.0, {}, m=m) for m in (1000, 1001, 1003, 1004)]
    assert choose([row(1.1, 1.0, {}, m=1002), *around], m=1010).key == WIDE


def test_a_variant_that_a_row_lacks_seemed_hopeless_there() -> None:
    """NARROW is a little ahead in the nearest row; where it is missing, it counts as 1.5 times the best."""
    near = row(2.0, 1.9, {}, m=64)
    assert choose([near, row(1.0, None, {}, m=80)], m=71).key == WIDE
    assert choose([near, row(1.0, 1.6, {}, m=80)], m=71).key == WIDE
    assert choose([near, row(1.0, 1.04, {}, m=80)], m=71).key == NARROW
    assert choose([row(1.0, None, {}, m=80)], m=90) == Choice(
        WIDE, row(1.0, None, {}, m=80), "NVIDIA H200", exact=False
    )


def test_what_any_of_the_nearest_rows_has_may_be_chosen() -> None:
    """The nearest row lacks NARROW, which is far ahead in the one behind it."""
    assert choose([row(1.0, None, {}, m=80), row(9.0, 1.0, {}, m=82)], m=81).key == NARROW


def test_what_is_said_of_a_choice() -> None:
    choice = choose([row(100.0, 110.0, m=2560)], m=2561)
    assert str(choice) == "estimated from the nearest measurements; the nearest is 110 us at m=2560 on NVIDIA H200"
    other = fastest([row(10.0, 11.0, m=2560)], {"m": 2560}, KEYS, gpu="NVIDIA H100", capability=HOPPER)
    assert "another GPU than this NVIDIA H100: measure here with 'precast tune measure'" in str(other)


@given(st.integers(0, 2**40), st.integers(1, 2**20), st.integers(1, 10_000))
def test_more_rows_are_never_less_work(m: int, tile: int, at_once: int) -> None:
    tiling = Tiling(tile={"m": tile}, at_once=at_once)
    assert 0 < tiling.work({"m": m}) <= tiling.work({"m": m + 1})


tilings = st.builds(
    lambda tile, at_once: Tiling(tile=tile, at_once=at_once),
    st.dictionaries(st.sampled_from("mn"), st.integers(1, 2**63 - 1), max_size=2),
    st.integers(1, 2**63 - 1),
)
measured = st.builds(
    lambda gpu, m, n, times, tiling, told: Measured(
        gpu=gpu,
        capability=HOPPER,
        problem={"m": m, "n": n},
        times=times,
        tilings={key: tiling for key in sorted(times)[:told] if tiling.cuts({"m": m, "n": n})},
    ),
    st.sampled_from(["NVIDIA H200", "NVIDIA H100"]),
    st.integers(0, 2**63 - 1),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from((WIDE, NARROW, SPARE)), st.floats(0.01, 1e9), min_size=1),
    tilings,
    st.integers(0, 3),
)


@given(st.lists(measured, max_size=8, unique_by=lambda m: m.place))
def test_tables_go_round(rows: list[Measured]) -> None:
    for meanings in ({}, {WIDE: b"1", NARROW: b"2"}, {WIDE: b"1", SPARE: b"1"}):
        tables = tables_of(rows, meanings)
        assert parse([table.to_json() for table in tables], (WIDE, NARROW, SPARE)) == tuple(
            sorted(rows, key=lambda m: m.place)
        )
        assert all(len({meanings.get(key, b"") for key in table.keys}) == 1 for table in tables)


@given(st.lists(measured, max_size=8, unique_by=lambda m: m.place), st.randoms())
def test_the_order_of_rows_decides_nothing(rows: list[Measured], chance: Any) -> None:
    others = list(rows)
    chance.shuffle(others)
    asked = {"m": 4096, "n": 2}
    one, other = (fastest(t, asked, (WIDE, NARROW, SPARE), gpu=None, capability=HOPPER) for t in (rows, others))
    assert one == other


GOOD = tables_of([row(10.0, 11.0, m=2560), row(1.0, 2.0, m=1)], {})[0].to_json()


def parse(tables: list[Any], keys: tuple[str, ...]) -> tuple[Measured, ...]:
    """All rows of the tables of a file."""
    return measurements(read_tables(tables, keys))


NO_TIMES = [
    "0",
    "0.0",
    "-1",
    "07",
    "1e13",
    "1e999",
    "nan",
    "inf",
    "x",
    "1_0",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "0x1",
    "1-1",
    ".",
    "e1",
    "--",
]


@pytest.mark.parametrize("wrong", NO_TIMES)
def test_what_is_no_time_is_refused(wrong: str) -> None:
    rows = [f"{n}: 1,{wrong if n == 7 else ''}" for n in range(20)]
    with pytest.raises(FormatError, match=r"a positive number of microseconds.* in 'tuning\[0\].rows\[7\]'"):
        parse([{**GOOD, "rows": rows}], KEYS)
    tables = read_tables([{**GOOD, "rows": []}, {**GOOD, "rows": rows}], KEYS)
    chosen = Estimate(tables, ["m"], KEYS, gpu=None, capability=HOPPER)
    with pytest.raises(FormatError, match=r"'tuning\[1\]\.rows\[7\]'"):
        chosen.fastest({"m": 8})


@pytest.mark.parametrize(
    "wrong", ["-1", "07", str(2**63), "1.0", "x", "", " 1", "1_0", "\u0661", "1" * 20, "+1", "1e3"]
)
def test_what_is_no_size_is_refused(wrong: str) -> None:
    rows = [f"{wrong if n == 7 else n}: 1," for n in range(20)]
    with pytest.raises(FormatError, match=r"in 'tuning\[0\].rows\[7\]"):
        parse([{**GOOD, "rows": rows}], KEYS)
    with pytest.raises(FormatError, match=r"rows\[7\]"):
        Estimate(read_tables([{**GOOD, "rows": rows}], KEYS), ["m"], KEYS, gpu=None, capability=HOPPER)


def test_sizes_may_be_as_large_as_a_number_of_64_bits() -> None:
    assert Table.parse({**GOOD, "rows": [f"{2**63 - 1}: 1,", "0: 1,"]}).problems() == [(2**63 - 1,), (0,)]


def test_whole_numbers_are_times_too() -> None:
    (row,) = parse([{**GOOD, "rows": ["1: 3,"]}], KEYS)
    assert [(value, type(value)) for value in row.times.values()] == [(3.0, float)]


def test_a_choice_parses_the_rows_that_are_near() -> None:
    """One that is far away may be anything; it is found where everything is read."""
    rows = [*(f"{n}: 1,2" for n in range(1000, 1030)), "1: nothing at all"]
    tables = read_tables([{**GOOD, "rows": rows}], KEYS)
    choice = Estimate(tables, ["m"], KEYS, gpu=None, capability=HOPPER).fastest({"m": 1010})
    assert choice is not None and choice.key == KEYS[0]
    with pytest.raises(FormatError, match=r"rows\[30\]"):
        measurements(tables)


def test_measurements_of_other_artifacts_on_this_gpu_do_not_hide_those_of_another_gpu() -> None:
    other = {**GOOD, "gpu": "NVIDIA H100", "variants": [{"key": SPARE}]}
    for rows in ([], ["2560: 1"]):
        tables = read_tables([GOOD, {**other, "rows": rows}], (*KEYS, SPARE))
        choice = Estimate(tables, ["m"], KEYS, gpu="NVIDIA H100", capability=HOPPER).fastest({"m": 2560})
        assert choice is not None and choice.measured.gpu == "NVIDIA H200"
    empty = {**GOOD, "gpu": "NVIDIA H100", "rows": []}
    choice = Estimate(read_tables([GOOD, empty], KEYS), ["m"], KEYS, gpu="NVIDIA H100", capability=HOPPER).fastest(
        {"m": 2560}
    )
    assert choice is not None and choice.measured.gpu == "NVIDIA H200"


def test_a_file_may_have_its_axes_in_any_order() -> None:
    table = {**GOOD, "variants": [{"key": WIDE}, {"key": NARROW}], "axes": ["n", "m"]}
    tables = read_tables([{**table, "rows": ["8,4096: 1,2", "4096,8: 2,1"]}], KEYS)
    estimate = Estimate(tables, ["m", "n"], KEYS, gpu=None, capability=HOPPER)
    near = [estimate.fastest(problem) for problem in ({"m": 4000, "n": 9}, {"n": 4000, "m": 9})]
    assert [choice and choice.key for choice in near] == [WIDE, NARROW]


def test_the_rows_of_all_tables_are_bounded() -> None:
    table = {**GOOD, "rows": [f"{n}: 1," for n in range(MOST_ROWS // 2 + 1)]}
    with pytest.raises(FormatError, match=r"20001 items, more than the 19999 .* in 'tuning\[1\].rows'"):
        read_tables([table, {**table, "gpu": "NVIDIA H100"}], KEYS)


def test_rows_without_a_time_of_the_artifacts_are_passed_over() -> None:
    """SPARE is of another target, say: rows that have its time alone are nearer, and say nothing."""
    table = {**GOOD, "variants": [{"key": WIDE}, {"key": NARROW}, {"key": SPARE}]}
    rows = [*(f"{n}: ,,1" for n in range(1000, 1050)), "90: 2,1,"]
    estimate = Estimate(
        read_tables([{**table, "rows": rows}], (*KEYS, SPARE)), ["m"], KEYS, gpu=None, capability=HOPPER
    )
    choice = estimate.fastest({"m": 1010})
    assert choice is not None and choice.key == NARROW and choice.measured.problem == {"m": 90}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": []}, "expected a problem"),
        ({"axes": ["m", "m"]}, "at least one axis and one variant, each once"),
        ({"axes": ["n"]}, "an axis that the problem does not have"),
        ({"variants": []}, "at least one axis and one variant"),
        ({"variants": [*GOOD["variants"], GOOD["variants"][0]]}, "one variant, each once"),
        ({"variants": [{"key": "x"}]}, "not an artifact's key"),
        ({"variants": [{"key": SPARE}]}, "no artifact has this key"),
        ({"rows": ["1: 1"]}, "expected a size for each axis and a time for each variant"),
        ({"rows": ["1,2: 1,1"]}, "expected a size for each axis"),
        ({"rows": ["-1: 1,1"]}, "a whole number for each size"),
        ({"rows": ["1: 1,0"]}, "a positive number"),
        ({"rows": ["1: ,"]}, "no variant has a time"),
        ({"rows": ["1: 1,1"] * 2}, "occurs twice"),
        ({"rows": 5}, "expected a list"),
        ({"rows": [5]}, "expected str"),
        ({"rows": ["1"]}, "expected a size for each axis and a time for each variant"),
        ({"rows": [""]}, "expected a whole number for each size"),
        ({"gpu": "\n"}, "not the name of a GPU"),
        ({"speed": 1}, "unknown key"),
        ({"problem": {"m": 1}, "times": {WIDE: 1.0}}, "unknown key"),
    ],
)
def test_a_table_that_lies(change: dict[str, Any], words: str) -> None:
    assert len(parse([GOOD], KEYS)) == 2
    with pytest.raises(FormatError, match=words) as caught:
        parse([{**GOOD, **change}], KEYS)
    assert "tuning[0]" in str(caught.value)
    with pytest.raises(FormatError, match="no artifact has this key"):
        parse([GOOD], (WIDE,))

"""The report of a bench: what is written is read again, and what ``precast tune apply`` takes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import FormatError
from precast.measure.annotate import Measurements
from precast.measure.bench.report import Report, Row
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings


def row(key: str, us: float, n: int = 8, **config: Any) -> Row:
    timing = Timing(problem={"n": n}, microseconds=us, spread=0.1, bytes=4 * n, peers={"torch.mul": 2 * us})
    return Row(op="scale", key=key * 64, target="sm_90a", config={"dtype": "float32", **config}, timing=timing)


REPORT = Report(
    gpu="NVIDIA H200",
    capability=Capability(9, 0),
    rounds=3,
    ceilings=Ceilings(bandwidth=4000.0, rates={"float32": 50.0}, l2=1 << 25),
    rows=(row("a", 2.00049, tile=(64, 8)), row("b", 3.0, tile=(128, 8)), row("a", 5.0, n=16, tile=(64, 8))),
    left_out=(("scale(threads: 1)", "it hung"),),
    notes=("a note",),
)


def test_what_is_written_is_read_again() -> None:
    assert Report.decode(REPORT.encode()) == REPORT
    assert Report.decode(REPORT.encode()).encode() == REPORT.encode()


def test_shares_are_in_the_file_for_readers_and_are_not_believed() -> None:
    data = json.loads(REPORT.encode())
    assert data["rows"][0]["roofline"]["bound"] == "memory"
    data["rows"][0]["roofline"]["share"] = 99.0
    assert Report.parse(data) == REPORT


def test_the_measurements_are_by_problem() -> None:
    measured = Measurements.decode(REPORT.measurements().encode())
    times = {tuple(m.problem.items()): dict(m.times) for m in measured.ops["scale"]}
    assert times == {(("n", 8),): {"a" * 64: 2.0, "b" * 64: 3.0}, (("n", 16),): {"a" * 64: 5.0}}
    assert measured.ops["scale"][0].gpu == "NVIDIA H200"
    assert not any(one.tilings for one in measured.ops["scale"])


def test_the_measurements_say_how_a_variant_cuts_a_problem_that_has_the_axes() -> None:
    known = {"a" * 64: Tiling(tile={"n": 4}, at_once=132), "b" * 64: Tiling(tile={"m": 4}, at_once=132)}
    measured = Measurements.decode(REPORT.measurements(known).encode())
    assert [dict(one.tilings) for one in measured.ops["scale"]] == [{"a" * 64: known["a" * 64]}] * 2


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), "precast-cache", "is not 'precast-bench'"),
        (("version",), 2, "the file has format version 2; this precast reads version 1: upgrade precast"),
        (("capability",), "nine", "capability"),
        (("rows", 0, "key"), "short", "rows[0].key"),
        (("rows", 0, "op"), "../x", "rows[0].op"),
        (("rows", 1, "timing", "microseconds"), 0, "rows[1].timing.microseconds"),
        (("rows", 1, "timing", "microseconds"), True, "rows[1].timing.microseconds"),
        (("rows", 1, "timing", "spread"), -1, "rows[1].timing.spread"),
        (("rows", 1, "timing", "peers"), {"torch": "fast"}, "peers.torch"),
        (("rows", 1, "timing", "bytes"), -4, "rows[1].timing.bytes"),
        (("rows", 1, "config"), [], "rows[1].config"),
        (("ceilings", "bandwidth"), 0, "ceilings.bandwidth"),
        (("ceilings", "rates"), {"float32": -1}, "ceilings.rates.float32"),
    ],
)
def test_a_wrong_file_is_told_with_the_place(place: tuple[Any, ...], value: object, message: str) -> None:
    data = json.loads(REPORT.encode())
    inside = data
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    with pytest.raises(FormatError) as caught:
        Report.parse(data)
    assert message in str(caught.value)

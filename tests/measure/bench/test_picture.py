"""The picture of the roofline: dots stand where they were measured, none above the roof but those that are said."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.target import Capability
from precast.measure.bench.picture import Dot, dots, picture
from precast.measure.bench.report import Report, Row
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings

CEILINGS = Ceilings(bandwidth=4000.0, rates={"bfloat16": 800.0, "float8_e4m3fn": 1600.0}, l2=50 << 20)
SVG = "{http://www.w3.org/2000/svg}"


def dot(op: str, intensity: float, rate: float, share: float = 0.5) -> Dot:
    return Dot(op=op, intensity=intensity, rate=rate, share=share, text=f"{op} <&>")


def circles(text: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(text)
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter(f"{SVG}circle")]


def test_a_dot_on_the_roof_is_drawn_on_it() -> None:
    """At 100 operations a byte, 4000 GB/s allow 400 TFLOP/s: on the slope. At 1000, the level of bfloat16."""
    text = picture([dot("a", 100.0, 400.0, 1.0), dot("b", 1000.0, 800.0, 1.0)], CEILINGS, "title")
    slope, *levels = (
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in ElementTree.fromstring(text).iter(f"{SVG}polyline")
    )
    on_slope, on_level = circles(text)
    (x1, y1), (x2, y2) = slope
    assert abs(y1 + (y2 - y1) * (on_slope[0] - x1) / (x2 - x1) - on_slope[1]) < 0.5
    assert abs(levels[0][0][1] - on_level[1]) < 0.2 and levels[1][0][1] < levels[0][0][1]


def test_it_needs_nothing_from_elsewhere_and_shows_in_the_dark() -> None:
    text = picture([dot("a", 1.0, 1.0)], CEILINGS, "a & b <c>")
    assert "prefers-color-scheme:dark" in text and "a &amp; b &lt;c&gt;" in text
    assert not re.search(r"href|url\(|@import|<script|https?://(?!www\.w3\.org/2000/svg)", text)


def test_of_each_op_the_best_is_labelled_and_labels_do_not_cover_each_other() -> None:
    found = [dot(f"op{n}", 100.0, 100.0 + n, 0.5 + n / 100) for n in range(8)] + [dot("op0", 100.0, 50.0, 0.2)]
    root = ElementTree.fromstring(picture(found, CEILINGS, "title"))
    labels = [t for t in root.iter(f"{SVG}text") if t.get("class") == "label"]
    assert sorted(str(t.text) for t in labels) == [f"op{n} {50 + n}%" for n in range(8)]
    heights = sorted(float(t.attrib["y"]) for t in labels)
    assert all(b - a > 10 for a, b in itertools.pairwise(heights))


def test_without_dots_the_roof_is_drawn_alone() -> None:
    assert circles(picture([], CEILINGS, "title")) == []
    assert circles(picture([], Ceilings(bandwidth=3.0), "title")) == []


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e5), st.floats(1e-6, 5e3)), min_size=1, max_size=20),
    st.floats(1.0, 1e5),
    st.dictionaries(st.sampled_from(["bfloat16", "int8"]), st.floats(0.1, 1e4)),
)
def test_every_dot_is_inside(points: list[tuple[float, float]], bandwidth: float, rates: dict[str, float]) -> None:
    found = [dot("a", intensity, rate) for intensity, rate in points]
    drawn = circles(picture(found, Ceilings(bandwidth=bandwidth, rates=rates), "title"))
    assert len(drawn) == len(found)
    assert all(70 <= x <= 840 and 50 <= y <= 480 and math.isfinite(x + y) for x, y in drawn)


def test_a_report_gives_dots_by_what_counts() -> None:
    def row(**timing: Any) -> Row:
        made = Timing(problem={"n": 8}, microseconds=100.0, spread=0.1, **timing)
        return Row(op="scale", key="a" * 64, target="sm_90a", config={"dtype": "bfloat16"}, timing=made)

    rows = (row(bytes=4 * 10**8, flops=10**9), row(flops=10**9), row(bytes=10**8))
    (one,) = dots(Report(gpu="NVIDIA H200", capability=Capability(9, 0), ceilings=CEILINGS, rows=rows))
    assert (one.intensity, one.rate, one.share) == (2.5, 10.0, 1.0)
    assert dots(Report(gpu="x", capability=Capability(9, 0), rows=rows)) == []

"""The pictures of the pages are what the stored results render to, can be read in both themes, and have all points."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import xml.etree.ElementTree as ElementTree
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.pages import PAGES, blocks, text_of
from tests.helpers.source_tree import ROOT
from tests.helpers.web import browser

IMAGES = ROOT / "docs" / "images"
DRAWERS = (
    "badges",
    "bars",
    "calls",
    "engine",
    "panels",
    "pipeline",
    "ratios",
    "scale",
    "stages",
    "starts",
    "svg",
    "terminal",
)
SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 40_000
"""Bytes of a picture."""
FITS = """
const all = [...document.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
const {width, height} = document.documentElement.getBoundingClientRect(), wrong = [];
for (const [i, [text, a]] of all.entries()) {
  if (a.left < 0 || a.top < 0 || a.right > width || a.bottom > height) wrong.push(text);
  for (const [other, b] of all.slice(0, i)) {
    const aside = a.left > b.right - 1 || b.left > a.right - 1, below = a.top > b.bottom - 2 || b.top > a.bottom - 2;
    if (!aside && !below) wrong.push([text, other]);
  }
}
return wrong
"""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of benchmarks/, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    pictures: dict[str, str] = load("draw", monkeypatch).drawn()
    return pictures


def test_each_picture_is_what_the_results_render_to(drawn: dict[str, str]) -> None:
    stale = [name for name, text in drawn.items() if (IMAGES / name).read_text() != text]
    assert not stale, "run: python benchmarks/draw.py"


def test_every_picture_has_a_dark_form_and_a_text_and_is_small(drawn: dict[str, str]) -> None:
    for path in sorted(IMAGES.glob("*.svg")):
        text = path.read_text()
        root = ElementTree.fromstring(text)
        assert "@media(prefers-color-scheme:dark)" in text, path
        assert root.attrib["role"] == "img" and len(root.attrib["aria-label"]) > 20, path
        assert len(text) < LARGEST, path
    assert set(drawn) <= {path.name for path in IMAGES.glob("*.svg")}


def test_every_measured_size_is_a_point(drawn: dict[str, str]) -> None:
    results = ROOT / "benchmarks" / "results" / "nvidia-h200"
    parts = {"memory-bound.svg": ["memory-bound"], "gemm.svg": ["gemm-bfloat16", "gemm-float8"]}
    for name, files in parts.items():
        rows = [row for file in files for row in json.loads((results / f"{file}.json").read_text())["data"]["rows"]]
        assert len(list(ElementTree.fromstring(drawn[name]).iter(f"{SVG}circle"))) == len(rows)


def test_a_point_is_as_high_as_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = load("pictures.ratios", monkeypatch)

    def row(us: float, moved: float) -> dict[str, Any]:
        peers = {"torch": 20.0, "torch.compile": 10.0}
        return {"op": "add", "config": {}, "problem": {"n": 1}, "bytes": moved, "us": us, "peers": peers}

    root = ElementTree.fromstring(ratios.memory_bound([row(5.0, 1e6), row(10.0, 1e7), row(20.0, 1e8)]))
    dots = [(float(dot.attrib["cy"]), dot.attrib["class"]) for dot in root.iter(f"{SVG}circle")]
    lines = [path.attrib["d"] for path in root.iter(f"{SVG}path") if "stroke-dasharray" in path.attrib]
    (level,) = {float(re.split("[ L]", line)[1]) for line in lines}
    assert dots[0][0] < level and dots[1][0] == pytest.approx(level, abs=0.1) and dots[2][0] > level
    assert [kind.split()[0] for _, kind in dots] == ["f-ours", "f-ours", "f-behind"], "the fastest peer counts"


def test_a_bar_is_as_long_as_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = load("pictures.starts", monkeypatch)
    phases = {"imports": 2.0, "preload": 0.5, "model": 0.25, "warm-up": 1.0}
    run = {"case": "a <b> & c", "listens": 4.0, "answered": 5.0, "phases": phases}
    slow = {**run, "case": "slow", "listens": 9.0, "answered": 10.0}
    root = ElementTree.fromstring(starts.picture({"runs": [run, slow]}))
    widths = [float(box.attrib["width"]) for box in root.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    first, second = sum(widths[:6]), sum(widths[6:])
    assert second == pytest.approx(2 * first, abs=1) and len(widths) == 12
    assert "a <b> & c" in [text.text for text in root.iter(f"{SVG}text")]


def test_the_page_of_figures_begins_with_plots() -> None:
    """And no page begins with what its author must not do."""
    text = text_of("docs/performance.md")
    assert text.index("images/memory-bound.svg") < text.index("images/calls.svg") < text.index("\n| kernel ")
    assert not [page for page in PAGES if "do not edit" in text_of(page)]


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{n}.md" for n in ("README", "engines", "performance", "deployment"))]
)
def test_each_picture_of_a_page_has_a_form_for_a_telephone(page: str) -> None:
    """A wide one would be shrunk there until nobody can read it."""
    found = re.findall(
        r'<picture><source media="\(max-width: 640px\)" srcset="([^"]+)-narrow\.svg">'
        r'<img alt="[^"]{5,}" src="([^"]+)\.svg"></picture>',
        text_of(page),
    )
    assert found and len(found) == text_of(page).count(".svg") / 2
    for narrow, wide in found:
        assert narrow == wide
        widths = [
            ElementTree.parse((ROOT / page).parent / f"{wide}{form}.svg").getroot().attrib["width"]
            for form in ("-narrow", "")
        ]
        assert widths == ["368", "736"]


@pytest.mark.parametrize("name", DRAWERS)
def test_the_examples_of_what_draws_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctest.testmod(load(f"pictures.{name}", monkeypatch)).failed == 0


@pytest.mark.slow
@pytest.mark.skipif(not browser.installed(), reason=browser.MISSING)
def test_the_texts_fit_and_the_dark_form_is_dark() -> None:
    with browser.browser() as driver:
        for path in sorted(IMAGES.glob("*.svg")):
            papers = []
            for theme in ("light", "dark"):
                browser.theme(driver, theme)
                driver.get(path.as_uri())
                assert driver.execute_script(FITS) == [], path.name
                papers.append(driver.execute_script("return getComputedStyle(document.querySelector('.f-paper')).fill"))
            assert papers == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"], path.name


def test_the_picture_of_the_pipeline_names_files_that_are_there() -> None:
    picture = (ROOT / "docs" / "images" / "pipeline.svg").read_text()
    named = re.findall(r'class="[^"]*\bfile\b[^"]*"[^>]*>([^<]+)<', picture)
    assert len(named) == 11
    folders = (*(["build"] * 7), *(["loader"] * 4))
    assert not [one for folder, one in zip(folders, named, strict=True) if not (ROOT / folder / one).is_file()]


def test_the_badges_and_the_first_run_are_those_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, badges = load("draw", monkeypatch), load("pictures.badges", monkeypatch)
    shown = badges.facts(draw.PROJECT.read_text(), [release.dsl for release in draw.RELEASES])
    assert f'alt="{", ".join(map(" ".join, shown))}"' in text_of("README.md")
    commands = [command["typed"] for command in json.loads((draw.RESULTS / "first-run.json").read_text())]
    ten = [
        line.partition("#")[0].strip() for block in blocks("README.md#Ten lines", "sh") for line in block.splitlines()
    ]
    assert commands == [line for line in ten if line.startswith("precast ")]

"""The site: it is built without a warning, loads nothing from elsewhere, and leads to every page."""

from __future__ import annotations

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.helpers.documentation.site import MISSING, SITE, build, installed
from tests.helpers.pages import PACKAGES, PAGES, prose, text_of
from tests.helpers.source_tree import ROOT

needs_sphinx = pytest.mark.skipif(not installed(), reason=MISSING)


class Loads(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(values.get("href", ""))
        elif tag != "link" or values.get("rel") in ("stylesheet", "preload", "icon", "prefetch"):
            self.loaded += [values[name] for name in ("src", "href", "srcset", "data", "poster") if name in values]


def read(page: Path) -> Loads:
    found = Loads()
    found.feed(page.read_text())
    return found


@needs_sphinx
@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES) - len(PACKAGES)
    elsewhere = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
    assert not [(page.name, one) for page in pages for one in read(page).loaded if elsewhere.match(one)]
    styles = [(path.name, re.findall(r"url\(([^)]+)\)|@import", path.read_text())) for path in site.rglob("*.css")]
    assert not [(name, url) for name, urls in styles for url in urls if elsewhere.match(url.strip("'\""))]


@needs_sphinx
@pytest.mark.slow
def test_every_page_leads_to_every_other(site: Path) -> None:
    home = read(site / "docs" / "README.html").links
    expected = {page.replace(".md", ".html") for page in PAGES if page not in PACKAGES} - {"docs/README.html"}
    reached = {(site / "docs" / link.partition("#")[0]).resolve() for link in home if link and "://" not in link}
    assert {page for page in expected if site / page not in reached} == set()
    assert 'url=docs/README.html"' in (site / "index.html").read_text()


@needs_sphinx
@pytest.mark.slow
def test_the_pictures_are_there(site: Path) -> None:
    for page in PAGES:
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text_of(page)):
            assert (site / "_images" / Path(picture).name).is_file(), f"{page}: {picture}"
        for picture in re.findall(r' (?:src|srcset)="([^"]+)"', prose(page)):
            assert (site / page).parent.joinpath(picture).is_file(), f"{page}: {picture}"


WRONG = {
    "[a](nothing.md)": "target not found: 'nothing.md'",
    "[a](b.md#no-such-part)": "local id not found in doc 'docs/b': 'no-such-part'",
    "[a](#no-part-of-mine)": "target not found: 'no-part-of-mine'",
    "[a](../examples/no_such.py)": "target not found: '../examples/no_such.py'",
    "![a](none.png)": "image file not readable: docs/none.png",
}
"""Links to nothing, and what is said of them."""


@needs_sphinx
@pytest.mark.slow
def test_what_leads_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = "\n\n".join(WRONG)
    (tmp_path / "docs" / "README.md").write_text(f"# Home\n\n{text}\n\n## Guides\n\nSee [B](b.md).\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n\n## A part\n")
    (tmp_path / "docs" / "c.md").write_text("# C\n\nThe navigation has no line of it.\n")
    done = build(tmp_path, tmp_path / "html")
    assert done.returncode != 0
    assert [warning for warning in WRONG.values() if warning not in done.stderr] == []
    assert "c.md: WARNING: document isn't included in any toctree" in done.stderr
    assert done.stderr.count("WARNING") == len(WRONG) + 1, done.stderr


def test_the_navigation_is_the_links_of_each_part_of_the_first_page() -> None:
    navigation = runpy.run_path(str(SITE / "conf.py"))["navigation"]
    first = "# Home\n\n[x](x.md)\n\n## A\n\n[One](one.md) and [Two](../two.md), or [a part](one.md#a).\n\n"
    made = navigation(f"{first}## B\n\ntext\n\n## C\n\n[T\nT](t.md) is 3.\n")
    assert re.findall(r":caption: (.+)", made) == ["A", "C"]
    assert re.findall(r"^[\w ]+ <.+>$", made, re.MULTILINE) == ["One <one>", "Two <../two>", "T T <t>"]


def test_the_picture_of_the_pipeline_names_files_that_are_there() -> None:
    picture = (ROOT / "docs" / "images" / "pipeline.svg").read_text()
    named = re.findall(r'class="[^"]*\bfile\b[^"]*"[^>]*>([^<]+)<', picture)
    assert len(named) == 11
    folders = (*(["build"] * 7), *(["loader"] * 4))
    assert not [one for folder, one in zip(folders, named, strict=True) if not (ROOT / folder / one).is_file()]

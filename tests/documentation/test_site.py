"""The site: it is built without a warning, loads nothing from elsewhere, and leads to every page.

In a real Chromium: cards, buttons that copy, outputs that differ from commands, themes, narrow screens. All is in one
file, since each process that runs tests builds the site for itself.
"""

from __future__ import annotations

import html
import re
import runpy
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.documentation.site import MISSING, SITE, build, installed
from tests.helpers.pages import PACKAGES, PAGES, blocks, prose, text_of
from tests.helpers.source_tree import ROOT
from tests.helpers.web import browser, contrast

needs_sphinx = pytest.mark.skipif(not installed(), reason=MISSING)
STYLE = "return getComputedStyle(document.querySelector(arguments[0]), arguments[2] || null)[arguments[1]]"
DARK = "rgb(13, 17, 23)"
LOOKED_AT = (
    "docs/README", "docs/tutorial", "docs/performance", "docs/kernels", "docs/reference/cli",
    "docs/reference/python/loader.get", "README",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all tests of it."""
    if not installed():
        pytest.skip(MISSING)
    out = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return out


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if not browser.installed():
        pytest.skip(browser.MISSING)
    with browser.browser() as driver:
        yield driver


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


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES) - len(PACKAGES)
    elsewhere = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
    assert not [(page.name, one) for page in pages for one in read(page).loaded if elsewhere.match(one)]
    styles = [(path.name, re.findall(r"url\(([^)]+)\)|@import", path.read_text())) for path in site.rglob("*.css")]
    assert not [(name, url) for name, urls in styles for url in urls if elsewhere.match(url.strip("'\""))]


@pytest.mark.slow
def test_every_page_leads_to_every_other(site: Path) -> None:
    home = read(site / "docs" / "README.html").links
    expected = {page.replace(".md", ".html") for page in PAGES if page not in PACKAGES} - {"docs/README.html"}
    reached = {(site / "docs" / link.partition("#")[0]).resolve() for link in home if link and "://" not in link}
    assert {page for page in expected if site / page not in reached} == set()
    assert 'url=docs/README.html"' in (site / "index.html").read_text()


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


def style(driver: Any, selector: str, name: str, part: str = "") -> str:
    return str(driver.execute_script(STYLE, selector, name, part))


@pytest.mark.slow
def test_the_first_page_has_a_card_for_each_thing_to_do(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "README.html").as_uri())
    titles = [card.text for card in chromium.find_elements("css selector", "#precast-documentation > section > h2")]
    assert {"Start", "Write kernels", "Build and ship", "Run a server"} <= {t.strip("# ¶") for t in titles}
    tops = "return arguments[0].map(id => document.getElementById(id).getBoundingClientRect().top)"
    first, second = chromium.execute_script(tops, ["write-kernels", "build-and-ship"])
    assert first == second, "two cards in a row"
    assert style(chromium, "#write-kernels", "borderTopStyle") == "solid"


@pytest.mark.slow
def test_a_button_copies_what_is_typed_and_outputs_have_none(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "tutorial.html").as_uri())
    block = chromium.find_element("css selector", "div.highlight-sh")
    chromium.execute_script("arguments[0].scrollIntoView({block: 'center'})", block)
    block.find_element("css selector", "button.copy").click()
    search = chromium.find_element("css selector", ".sidebar-search")
    search.click()
    search.send_keys("\ue009v\ue000")  # Control and v
    typed = search.get_attribute("value")
    assert typed.startswith("python3 -m venv builder") and typed.endswith("precast doctor") and "$" not in typed
    assert not chromium.find_elements("css selector", "div.highlight-text button.copy")


@pytest.mark.slow
def test_commands_and_outputs_look_different(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "tutorial.html").as_uri())
    lines = blocks("docs/tutorial.md", "sh")[0].strip().splitlines()
    prompts = chromium.find_element("css selector", "div.highlight-sh").find_elements("css selector", ".prompt")
    assert len(prompts) == len(lines) == 4, "one for each command"
    assert style(chromium, ".prompt", "content", "::before") == '"$"'
    assert not chromium.find_elements("css selector", "div.highlight-text .prompt, div.highlight-python .prompt")
    command, output = (
        style(chromium, f"div.highlight-{kind} .highlight", "backgroundColor") for kind in ("sh", "text")
    )
    assert command != output


@pytest.mark.slow
def test_groups_fold_and_the_current_page_is_in_sight(chromium: Any, site: Path) -> None:
    with browser.screen(chromium, 1400, 700):
        for page, group in (("docs/README", "Start"), ("docs/reference/python/loader.variants", "Look up")):
            chromium.get((site / f"{page}.html").as_uri())
            groups = chromium.find_elements("css selector", ".sidebar-tree details")
            assert len(groups) == text_of("docs/README.md").count("\n## ")
            opened = chromium.find_elements("css selector", ".sidebar-tree details[open] > summary")
            assert [summary.text for summary in opened] == [group]
        here = chromium.find_element("css selector", ".sidebar-tree .current-page > a")
        assert here.text == "loader.variants" and here.is_displayed()
        top, bottom = chromium.execute_script(
            "const r = arguments[0].getBoundingClientRect(); return [r.top, r.bottom]", here
        )
        assert 0 < top < bottom < 700 and chromium.execute_script("return scrollY") == 0


@pytest.mark.slow
def test_the_mark_is_shown_and_the_accent_is_one(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "README.html").as_uri())
    widths = "return [...document.querySelectorAll('.sidebar-logo')].map(i => i.naturalWidth)"
    assert (
        all(chromium.execute_script(widths))
        and 'icon" href="../_static/mark.svg"' in (site / "docs" / "README.html").read_text()
    )
    accent = style(chromium, "article a.reference", "color")
    assert accent == style(chromium, ".prompt", "color", "::before")
    assert accent == style(chromium, "div.highlight-sh pre", "borderLeftColor") == "rgb(37, 99, 201)"


@pytest.mark.slow
def test_the_name_of_a_function_is_larger_than_the_headings_below(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "reference" / "python" / "loader.get.html").as_uri())
    name, heading, text = (float(style(chromium, tag, "fontSize")[:-2]) for tag in ("h1 code", "h2", "article p"))
    assert name > heading > text
    assert [part.text.strip("# \u00b6") for part in chromium.find_elements("css selector", "h2")] == [
        "Parameters",
        "Returns",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 1600])
@pytest.mark.parametrize("page", LOOKED_AT)
def test_no_table_is_cut_on_a_wide_screen(chromium: Any, site: Path, page: str, width: int) -> None:
    cut = "return [...document.querySelectorAll('.table-wrapper')].filter(w => w.scrollWidth > w.clientWidth).length"
    with browser.screen(chromium, width):
        chromium.get((site / f"{page}.html").as_uri())
        assert chromium.execute_script(cut) == 0
        last = chromium.execute_script("return document.documentElement.scrollWidth")
    assert last <= width


@needs_sphinx
@pytest.mark.slow
def test_an_option_has_two_hyphens_wherever_it_is_named(tmp_path: Path) -> None:
    """A heading, a table or a link with a dash instead could not be copied."""
    (tmp_path / "docs").mkdir()
    text = (
        "# Home\n\n## precast new --ci\n\nUse --ci, 'precast build' and \"precast\".\n\n| --ci |\n| --- |\n| --json |\n"
    )
    (tmp_path / "docs" / "README.md").write_text(text)
    done = build(tmp_path, tmp_path / "html")
    assert done.returncode == 0, done.stderr
    page = html.unescape((tmp_path / "html" / "docs" / "README.html").read_text())
    for shown in (
        "<h2>precast new --ci<",
        "Use --ci, 'precast build' and \"precast\".",
        "<p>--ci</p>",
        "<p>--json</p>",
    ):
        assert shown in page


@pytest.mark.slow
@pytest.mark.parametrize(("system", "chosen"), [("dark", "auto"), ("light", "dark"), ("dark", "light")])
def test_pictures_follow_the_theme_that_the_reader_chose(chromium: Any, site: Path, system: str, chosen: str) -> None:
    browser.theme(chromium, system)
    chromium.get((site / "docs" / "README.html").as_uri())
    chromium.execute_script("document.body.dataset.theme = arguments[0]", chosen)
    dark = (system if chosen == "auto" else chosen) == "dark"
    assert (style(chromium, "body", "backgroundColor") == DARK) == dark
    assert style(chromium, "article img", "colorScheme") == (
        "dark" if dark else "light" if chosen == "light" else "normal"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("page", LOOKED_AT)
def test_each_text_can_be_read(chromium: Any, site: Path, page: str, name: str) -> None:
    browser.theme(chromium, name)
    chromium.get((site / f"{page}.html").as_uri())
    assert contrast.too_low(chromium) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/README", "docs/performance", "README"])
def test_a_narrow_screen_gets_pictures_in_which_texts_keep_their_size(chromium: Any, site: Path, page: str) -> None:
    all_of = "return [...document.querySelectorAll('article picture > img')]"
    shown = f"{all_of}.map(i => [i.currentSrc, i.width / i.naturalWidth])"
    with browser.screen(chromium, 400):
        chromium.get((site / f"{page}.html").as_uri())
        narrow = chromium.execute_script(shown)
    assert narrow and all(name.endswith("-narrow.svg") and scale > 0.95 for name, scale in narrow)
    chromium.get((site / f"{page}.html").as_uri())
    assert not [name for name, _ in chromium.execute_script(shown) if name.endswith("-narrow.svg")]


@pytest.mark.slow
@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_narrow_screen_scrolls_tables_and_not_the_page(chromium: Any, site: Path, page: str) -> None:
    with browser.screen(chromium, 400):
        chromium.get((site / f"{page}.html").as_uri())
        wide = chromium.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == 400

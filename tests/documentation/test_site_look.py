"""The site in a real Chromium: cards, buttons that copy, outputs that differ from commands, themes, narrow screens."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.documentation.site import MISSING, build, installed
from tests.helpers.web import browser, contrast

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(), reason=MISSING),
    pytest.mark.skipif(not browser.installed(), reason=browser.MISSING),
]
STYLE = "return getComputedStyle(document.querySelector(arguments[0]), arguments[2] || null)[arguments[1]]"
DARK = "rgb(13, 17, 23)"
LOOKED_AT = ("docs/README", "docs/tutorial", "docs/performance", "docs/reference/cli", "README")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browser() as driver:
        yield driver


def style(driver: Any, selector: str, name: str, part: str = "") -> str:
    return str(driver.execute_script(STYLE, selector, name, part))


def test_the_first_page_has_a_card_for_each_thing_to_do(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "README.html").as_uri())
    titles = [card.text for card in chromium.find_elements("css selector", "#precast-documentation > section > h2")]
    assert {"Start", "Write kernels", "Build and ship", "Run a server"} <= {t.strip("# ¶") for t in titles}
    tops = "return arguments[0].map(id => document.getElementById(id).getBoundingClientRect().top)"
    first, second = chromium.execute_script(tops, ["write-kernels", "build-and-ship"])
    assert first == second, "two cards in a row"
    assert style(chromium, "#write-kernels", "borderTopStyle") == "solid"


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


def test_commands_and_outputs_look_different(chromium: Any, site: Path) -> None:
    chromium.get((site / "docs" / "tutorial.html").as_uri())
    assert style(chromium, "div.highlight-sh .highlight", "content", "::before") == '"$"'
    assert style(chromium, "div.highlight-text .highlight", "content", "::before") == "none"
    command, output = (
        style(chromium, f"div.highlight-{kind} .highlight", "backgroundColor") for kind in ("sh", "text")
    )
    assert command != output


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


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("page", LOOKED_AT)
def test_each_text_can_be_read(chromium: Any, site: Path, page: str, name: str) -> None:
    browser.theme(chromium, name)
    chromium.get((site / f"{page}.html").as_uri())
    assert contrast.too_low(chromium) == []


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


@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_narrow_screen_scrolls_tables_and_not_the_page(chromium: Any, site: Path, page: str) -> None:
    with browser.screen(chromium, 400):
        chromium.get((site / f"{page}.html").as_uri())
        wide = chromium.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == 400

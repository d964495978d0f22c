"""The page in a real Chromium: it filters, sorts, opens and copies, by mouse and by keyboard, and is one file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.web import browser, contrast

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not browser.installed(), reason=browser.MISSING)]


@pytest.fixture
def opened(chromium: Any, written: Path) -> Any:
    chromium.get(written.as_uri())
    return chromium


def rows(driver: Any) -> list[list[str]]:
    script = "return [...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    found: list[list[str]] = driver.execute_script(script)
    return found


def said(driver: Any) -> str:
    return str(driver.find_element("id", "count").text)


def column(driver: Any, name: str) -> list[str]:
    heads = [head.text for head in driver.find_elements("css selector", "#table thead th")]
    return [row[heads.index(name)] for row in rows(driver)]


def test_it_shows_all_and_complains_of_nothing(opened: Any, written: Path) -> None:
    assert said(opened).startswith("12 of 12 variants, ") and len(rows(opened)) == 12
    assert opened.title == "shown: precast report"  # and none of the texts ran
    assert browser.errors(opened, written) == []
    assert opened.execute_script("return document.querySelectorAll('main img').length") == 0
    assert "src=" not in written.read_text().replace("<img src=x", "").replace("\\u003cimg src=x", "")


def test_it_filters_as_one_types(opened: Any) -> None:
    search = opened.find_element("id", "search")
    search.send_keys("float16 threads: 256")
    assert said(opened).startswith("2 of 12")  # float16 is in bfloat16, too
    assert column(opened, "dtype") == ["bfloat16", "float16"]
    assert "threads 256" in opened.find_element("css selector", "#table .same").text, "no longer a column"
    search.send_keys("\ue00c")  # Escape
    assert said(opened).startswith("12 of 12")
    opened.find_element("css selector", "#target option:nth-child(2)").click()
    assert said(opened).startswith("12 of 12")
    states = [option.text for option in opened.find_elements("css selector", "#state option")]
    assert states == ["all", "not verified"], "a filter that leaves nothing or all is not offered"


def test_it_sorts_by_a_column_both_ways(opened: Any) -> None:
    def stored() -> list[float]:
        return [float(text.split()[0]) for text in column(opened, "stored")]

    head = opened.find_element("xpath", "//th/button[text()='stored']")
    head.click()
    assert stored() == sorted(stored())
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    head.click()
    assert stored() == sorted(stored(), reverse=True)


def test_the_line_of_a_variant_is_copied(opened: Any) -> None:
    opened.find_element("id", "search").send_keys("bfloat16 threads: 512")
    (button,) = opened.find_elements("css selector", "#table tbody td:last-child button")
    button.click()
    search = opened.find_element("id", "search")
    search.clear()
    search.send_keys("\ue009v\ue000")  # Control and v; a field of one line drops the line break
    line = search.get_attribute("value")
    assert line.startswith("kernel = loader.get('scale', {'dtype': 'bfloat16', ") and "'threads': 512" in line
    assert line.endswith(" kernel(x, y, factor)")


def test_a_variant_opens_by_the_keyboard_and_tells_all(opened: Any, hostile: str) -> None:
    button = opened.find_element("css selector", "#table tbody button.open")
    button.send_keys("\ue007")  # Enter
    assert button.get_attribute("aria-expanded") == "true"
    details = opened.find_element("css selector", "#table .details").text
    assert "loader.get('scale'" in details and hostile in details
    assert "signature\n(x: " in details
    button.send_keys("\ue007")
    assert not opened.find_elements("css selector", "#table .details")


def test_the_search_is_one_key_away(opened: Any) -> None:
    opened.find_element("tag name", "body").send_keys("/")
    assert opened.switch_to.active_element.get_attribute("id") == "search"


def test_the_boxes_follow_the_filter_and_fill_their_room(opened: Any) -> None:
    areas = (
        "const box = document.getElementById('treemap'); return [box.clientWidth * box.clientHeight,"
        " ...[...box.querySelectorAll('span:not(.op)')].map(({style}) => parseFloat(style.width) *"
        " parseFloat(style.height))]"
    )
    room, *boxes = opened.execute_script(areas)
    assert len(boxes) == 12 and abs(sum(boxes) - room) < room * 0.01
    covers = opened.find_element("id", "treemap-about")
    whole = re.search(r"bytes: (\S+ kB) in all. Equal ones are stored once.* No box: \S+ kB of no", covers.text)
    opened.find_element("id", "search").send_keys("threads: 256")
    assert len(opened.execute_script(areas)) == 1 + 3
    assert whole and f"{whole[1]} in all" not in covers.text, "the boxes cover less now"


def test_what_is_not_verified_is_amber(opened: Any) -> None:
    ink = "return getComputedStyle(arguments[0]).color"
    amber = "rgb(154, 103, 0)", "rgb(210, 153, 34)"
    texts = "//*[self::td or self::dd][text()='not verified']"
    shown = opened.find_elements("xpath", texts)
    assert len(shown) == 1 + 12 and {opened.execute_script(ink, text) for text in shown} <= set(amber)


def test_who_wins_where_is_a_table(opened: Any) -> None:
    heads = [cell.text for cell in opened.find_elements("css selector", "#heat thead th")]
    assert heads == ["n", "m 1", "m 16", "m 128"]
    cells = opened.find_elements("css selector", "#heat td")
    assert len(cells) == 6 and all("threads 64" in cell.get_attribute("title") for cell in cells)
    assert opened.find_element("id", "legend").text.split() == ["threads", "64others"]


@pytest.mark.parametrize("name", ["dark", "light"])
def test_it_follows_the_theme_and_takes_another(opened: Any, name: str) -> None:
    browser.theme(opened, name)
    opened.refresh()
    paper = "return getComputedStyle(document.body).backgroundColor"
    dark, light = "rgb(13, 17, 23)", "rgb(255, 255, 255)"
    assert opened.execute_script(paper) == (dark if name == "dark" else light)
    opened.find_element("id", "theme").click()
    assert opened.execute_script(paper) == (light if name == "dark" else dark)


def test_the_keys_that_differ_are_columns_and_the_others_a_line(opened: Any, hostile: str) -> None:
    heads = [head.text for head in opened.find_elements("css selector", "#table thead th")]
    assert heads[:4] == ["details", "dtype", "threads*", "stored"]
    same = opened.find_element("css selector", "#table .same").text
    assert same.startswith(f"In all: layout {hostile}, for sm_90a, ")


def test_an_op_is_headed_by_its_call_and_opens_alone(opened: Any) -> None:
    (summary,) = opened.find_elements("css selector", "#table summary")
    assert summary.text.startswith("scale(x, ") and "12 variants" in summary.text
    summary.click()
    assert not opened.find_element("css selector", "#table table").is_displayed()


def test_what_is_stored_and_when_is_explained(opened: Any) -> None:
    texts = [tile.text for tile in opened.find_elements("css selector", "#summary div")]
    tiles = {text.split("\n")[0]: text for text in texts}
    assert "compressed" in tiles["stored"] and "unpacked" in tiles["stored"]
    assert "not verified" in tiles["verified"] and "glibc 2.17" in tiles["targets"]
    assert "wrong" not in tiles and "with spills" not in tiles, "what did not happen is not counted"
    assert opened.find_element("id", "about").text.startswith("built 2023-11-14 22:13 UTC")


def test_times_are_drawn_against_the_roofline(opened: Any) -> None:
    drawn = opened.find_elements("css selector", "#roofline circle title")
    assert len(drawn) == 3
    assert drawn[0].get_attribute("textContent") == "scale bfloat16 64, n 8: 200 µs, 50% of the roofline (memory)"


def test_what_a_choice_is_worth_is_drawn(opened: Any) -> None:
    notes = [e.get_attribute("textContent") for e in opened.find_elements("css selector", "#spread circle title")]
    assert len(notes) == 6 * 4
    assert "m 1, n 64: threads 64, 10 µs, 1.00 times the fastest" in notes
    assert "m 1, n 64: threads 512, 13 µs, 1.30 times the fastest" in notes


def labels(driver: Any) -> list[list[int]]:
    """How much wider and higher the text in each box is than the box, and its number of lines."""
    sizes = (
        "return [...document.querySelectorAll('#treemap span')].filter(s => s.textContent)"
        ".map(s => [s.scrollWidth - s.clientWidth, s.scrollHeight - s.clientHeight, s.textContent.split('\\n').length])"
    )
    found: list[list[int]] = driver.execute_script(sizes)
    return found


def test_a_box_has_a_text_where_it_fits_in_as_many_lines_as_that_needs(opened: Any) -> None:
    wide = labels(opened)
    assert len(wide) == 12 and {lines for _, _, lines in wide} == {1}
    with browser.screen(opened, 230):
        narrow = labels(opened)
    assert len(narrow) == 12 and 2 in {lines for _, _, lines in narrow}
    with browser.screen(opened, 120):
        least = labels(opened)
    assert len(least) < 12
    assert not [1 for across, down, _ in (*narrow, *least) if across > 1 or down > 1]


def test_the_colour_of_one_op_is_no_alarm(opened: Any) -> None:
    shade = "return getComputedStyle(document.querySelector('#treemap span')).backgroundColor"
    red, green, blue = map(int, opened.execute_script(shade).removeprefix("rgb(").removesuffix(")").split(","))
    assert blue > green > red


@pytest.mark.parametrize("name", ["dark", "light"])
def test_each_text_can_be_read(chromium: Any, compared: Path, name: str) -> None:
    """Those in boxes and cells, too, whose colours are the data's."""
    browser.theme(chromium, name)
    chromium.get(compared.as_uri())
    chromium.find_element("css selector", "#table tbody button.open").click()
    assert contrast.too_low(chromium) == []


def test_a_comparison_begins_with_counts(chromium: Any, compared: Path) -> None:
    chromium.get(compared.as_uri())
    assert chromium.find_element("id", "changes-title").text.startswith("Compared with shown, index ")
    tiles = [tile.text.split("\n")[:2] for tile in chromium.find_elements("css selector", "#changes-counts div")]
    assert tiles == [["added", "3"], ["removed", "1"], ["changed", "1"], ["unchanged", "8"]]
    facts = [fact.text for fact in chromium.find_elements("css selector", "#changes-facts span:not(.soft)")]
    assert "registers 1" in facts and "content 1" in facts
    chromium.find_element("id", "reveal").click()
    assert said(chromium).startswith("4 of 12")
    changes = column(chromium, "change")
    assert changes.count("added") == 3 and any("content" in text and "registers" in text for text in changes)


@pytest.mark.parametrize("width", [400, 1400])
def test_only_tables_scroll_sideways(opened: Any, width: int) -> None:
    with browser.screen(opened, width):
        opened.find_element("css selector", "#table tbody button.open").send_keys("\ue007")
        wide = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        moved = "const s = document.querySelector('.scroll'); s.scrollLeft = 50; return s.scrollLeft"
        scrolled = opened.execute_script(moved)
    assert wide[0] <= wide[1] == width
    assert scrolled == (50 if width == 400 else 0)

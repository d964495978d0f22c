"""Markup: any text stays text, whatever it would like to be."""

from __future__ import annotations

import ast
import re

from hypothesis import given
from hypothesis import strategies as st

from precast.loader.markup import ROWS, Markup, element, escaped, page, table
from tests.helpers.notebook.markup_reader import MarkupReader


@given(st.text())
def test_any_text_is_shown_as_it_is(text: str) -> None:
    read = MarkupReader(escaped(text))
    assert set(read.tags) <= {"span", "wbr"} and not read.attributes
    assert read.text == "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


@given(st.text(alphabet="$\\()[]{}beginx"))
def test_no_text_becomes_a_formula(text: str) -> None:
    """A notebook takes ``$x$`` and what stands between backslash and bracket for one, within one piece of text."""
    pieces = re.split("</?span>", escaped(text).replace("<wbr>", ""))
    assert all(piece in ("$", "\\") for piece in pieces if "$" in piece or "\\" in piece)


def test_what_nobody_sees_is_written_out() -> None:
    hidden = "sm_90a\u202e\u200b\x00\ud800\ufeff"
    shown = MarkupReader(escaped(hidden)).text
    assert shown == r"sm_90a\u202e\u200b\x00\ud800\ufeff"
    assert ast.literal_eval(f"'{shown}'") == hidden
    shown.encode()  # a notebook sends UTF-8, which has no lone surrogates


def test_a_long_text_is_cut_and_says_so() -> None:
    assert MarkupReader(escaped("x" * 5000)).text.endswith("x... (5000 characters)")


@given(st.text(), st.text())
def test_only_markup_is_markup(one: str, other: str) -> None:
    nested = element("p", one, element("b", other))
    assert set(MarkupReader(nested).tags) <= {"p", "b", "span", "wbr"}
    assert nested == f"<p>{escaped(one)}<b>{escaped(other)}</b></p>"
    assert element("p", Markup("<i></i>")) == "<p><i></i></p>"


def test_of_many_rows_the_first_are_shown_and_the_others_counted() -> None:
    read: list[int] = []
    rows = (read.append(n) or (n, "x") for n in range(10**6))  # type: ignore[func-returns-value]
    drawn = MarkupReader(table("many", ("n", "x"), rows, 10**6))
    assert drawn.tags.count("tr") == 1 + ROWS
    assert drawn.text.endswith("and 999900 more")
    assert len(read) == ROWS + 1


def test_a_table_of_exactly_as_many_says_nothing_more() -> None:
    assert "more" not in table("all", ("n",), ((n,) for n in range(ROWS)), ROWS)


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    shown = page(table("t", ("a",), [("b",)]))
    read = MarkupReader(shown)
    assert set(read.tags) == {"div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert read.attributes == [("class", "precast-values")]
    for word in ("url", "@", "expression", "http", "/*"):
        assert word not in read.style
    selectors = [rule.partition("{")[0] for rule in read.style.split("}") if rule]
    assert all(one.startswith(".precast-values") for rule in selectors for one in rule.split(","))

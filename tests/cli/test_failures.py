"""What ``precast build`` prints of the variants that failed."""

from __future__ import annotations

from dataclasses import replace

from precast.build.compile.outcome import Failed
from precast.cli.shared.builds.display import by_reason, render
from tests.helpers.variants import variant

TRACE = "\n".join(["Traceback (most recent call last):", *(f"  frame {n}" for n in range(30)), "ValueError: too wide"])


def failed(number: int, reason: str, details: str = "") -> Failed:
    return Failed(variant=variant(number), reason=reason, details=details)


def test_hundreds_of_failures_for_one_reason_are_one_block() -> None:
    lines = render([failed(n, f"hidden={n} is too wide", TRACE) for n in range(300)]).splitlines()
    assert len(lines) <= 15
    assert lines[0].endswith(f"{variant(0)}: hidden=0 is too wide")
    assert lines[1] == "    ... 20 earlier lines: --verbose prints them"
    assert lines[-2:] == ["    ValueError: too wide", "and 299 more variants for the same reason: --verbose lists them"]


def test_verbose_prints_every_failure_whole() -> None:
    text = render([failed(n, "too wide", TRACE) for n in range(30)], verbose=True)
    assert text.count("error: ") == 30 and text.count("frame 0\n") == 30
    assert "--verbose" not in text


def test_the_most_frequent_reason_is_first_and_the_rest_is_counted() -> None:
    words = [chr(ord("a") + n) for n in range(14)]
    failures = [failed(n, f"reason {word}") for n, word in enumerate(words)] + [failed(99, "reason n")]
    text = render(failures)
    assert text.startswith(
        f"error: {failures[13].variant.location}: {failures[13].variant}: reason n\nand 1 more variant "
    )
    assert text.endswith("and 4 more reasons: --verbose prints them")


def test_reasons_that_differ_in_more_than_numbers_are_apart() -> None:
    failures = [failed(1, "a 1"), failed(2, "b 1"), failed(3, "a 22")]
    assert [[f.reason for f in group] for group in by_reason(failures)] == [["a 1", "a 22"], ["b 1"]]


def test_a_failure_without_details_is_one_line() -> None:
    assert "\n" not in render([replace(failed(1, "the worker died"), details=" \n")])


def test_a_failure_of_precasts_own_names_its_page() -> None:
    own = [replace(failed(n, "it compiled nothing", TRACE), code="PCB19") for n in range(2)]
    first, *_, last = render(own).splitlines()
    assert first.endswith("it compiled nothing (PCB19)")
    assert last == "and 1 more variant for the same reason: --verbose lists them"


def test_the_end_of_a_traceback_that_repeats_the_reason_is_left_out() -> None:
    text = render([failed(0, "ValueError: too wide", TRACE)])
    assert text.count("ValueError: too wide") == 1 and text.splitlines()[-1] == "      frame 29"

"""What a person sees of a build, on a terminal and in a log."""

from __future__ import annotations

import io

import pytest

from precast.cli.shared.rate import Rate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_shows_what_is_at_work_the_rate_and_the_time_left() -> None:
    clock, screen = Clock(), Terminal()
    with Rate(102, stream=screen, clock=clock) as rate:
        for _ in range(2):
            rate.skip()
        rate.begin("a")
        rate.begin("b")
        assert rate.line() == "[2/102] a; b"
        clock.now = 10.0
        for _ in range(4):
            rate.end("a", "1.00 s")
        # Four in ten seconds, and 96 to go; those that were there already say nothing of the rate.
        assert rate.line() == "[6/102] 0.4/s, 4:00 left: b"
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_failure_stays_on_the_terminal() -> None:
    screen = Terminal()
    with Rate(2, stream=screen) as rate:
        rate.begin("a")
        rate.end("a", "failed", keep=True)
    assert "[1/2] a: failed\n" in screen.getvalue()


def test_a_log_has_whole_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, ci in ((io.StringIO(), ""), (Terminal(), "true")):
        monkeypatch.setenv("CI", ci)
        with Rate(10, stream=stream) as rate:
            rate.skip()
            rate.begin("a")
            rate.end("a", "0.10 s")
        assert stream.getvalue() == "[ 2/10] a: 0.10 s\n"

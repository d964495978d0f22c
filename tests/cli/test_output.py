"""Tables and progress."""

from __future__ import annotations

import io

import pytest

from precast.cli.shared.output import Progress, as_json, size, table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(text: str) -> list[str]:
    """What a terminal shows in the end: a carriage return goes back, and later text covers earlier."""
    lines = []
    for raw in text.split("\n"):
        line = ""
        for part in raw.split("\r"):
            line = part + line[len(part) :]
        lines.append(line.rstrip())
    return lines


def steps(stream: io.StringIO) -> str:
    with Progress(10, stream=stream) as progress:
        progress.step("a long first name", "0.1 s")
        progress.step("short", "failed", keep=True)
        progress.step("last")
    return stream.getvalue()


def test_on_a_terminal_only_what_went_wrong_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert shown(steps(Terminal())) == ["[ 2/10] short: failed", ""]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_in_a_log_every_step_is_one_whole_line(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    monkeypatch.setenv("CI", "true")
    assert steps(stream).splitlines() == ["[ 1/10] a long first name: 0.1 s", "[ 2/10] short: failed", "[ 3/10] last"]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(["op", "target"], []) == "op  target"


def test_json_refuses_what_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json({"seconds": float("nan")})


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (10**10, "10.0 GB")])
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text

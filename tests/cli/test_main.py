"""The frame of the command: statuses, messages, and what is never shown."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import version

import pytest

from precast.cli import main
from precast.loader import errors


def precast(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "precast.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version() -> None:
    done = precast("--version")
    assert done.stdout == f"precast {version('precast')} (loader {version('precast-loader')})\n"
    assert done.returncode == 0


def test_help_lists_every_command_with_its_line() -> None:
    words = " ".join(precast("--help").stdout.replace("│", " ").split())
    for name, line in main.commands().items():
        assert f"{name} {line}" in words


@pytest.mark.parametrize("name", list(main.commands()))
def test_a_command_says_the_same_everywhere(name: str) -> None:
    module = importlib.import_module(f"precast.cli.{name}")
    assert (module.command.__doc__ or "").partition("\n")[0] == main.commands()[name] != ""
    assert precast(name, "--help").returncode == 0


def test_an_unknown_command_is_a_wrong_request() -> None:
    done = precast("bild")
    assert done.returncode == 2
    assert "No such command 'bild'" in done.stderr and done.stdout == ""


def test_an_unknown_option_is_a_wrong_request() -> None:
    done = precast("doctor", "--jsn")
    assert done.returncode == 2
    assert "--jsn" in done.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError("hidden: 'a' is not an int: write a number"), 2),
        (errors.TargetError("'sm90' is not a target: write it like 'sm_90a'"), 2),
        (errors.FormatError("expected int", "kernels[0].config"), 2),
        (errors.CacheError("no cache here: build one"), 1),
        (errors.IntegrityError("bytes differ: build it again"), 1),
        (errors.VariantNotFound("no variant: add it to the manifest"), 1),
    ],
)
def test_an_error_of_ours_is_a_message_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: errors.PrecastError, status: int
) -> None:
    def failing(json: bool = False) -> None:
        raise error

    monkeypatch.setattr("precast.cli.inspect.doctor.command", failing)
    with pytest.raises(SystemExit) as ended:
        main.run(["doctor"])
    assert ended.value.code == status
    assert capsys.readouterr() == ("", f"error: {error}\n")


def test_any_other_exception_keeps_its_traceback() -> None:
    script = (
        "from precast.cli import doctor, main\n"
        "def failing() -> None: raise ZeroDivisionError('unforeseen')\n"
        "doctor.command = failing\n"
        "main.run(['doctor'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr and "ZeroDivisionError: unforeseen" in done.stderr

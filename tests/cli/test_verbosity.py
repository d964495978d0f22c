"""--quiet and --verbose, which every command has."""

from __future__ import annotations

import os
import subprocess

import pytest

from precast.cli import main
from precast.cli.shared.output import print_message
from precast.cli.shared.progress import Progress, waiting
from precast.cli.shared.verbosity import verbosity
from tests.cli.satellites import installed_commands
from tests.helpers.forks.forked_process import run


def failing(*options: str) -> subprocess.CompletedProcess[str]:
    return run(("list", "nowhere", *options), os.environ)


def test_every_command_has_both() -> None:
    for name in installed_commands():
        spelled = [word for parameter in main.load(name).params for word in parameter.opts]
        assert sorted(word for word in spelled if word in ("--quiet", "-q", "--verbose", "-v")) == [
            "--quiet", "--verbose", "-q", "-v",
        ], name  # fmt: skip


def test_a_quiet_command_prints_what_is_wrong_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbosity, "quiet", True)
    print_message("warning: an old driver")
    print_message("error: no driver")
    with Progress(1) as progress, waiting("importing kernels", after=0):
        progress.stage("starting workers")
        progress.step("scale", "0.1 s", keep=True)
    assert capsys.readouterr() == ("", "error: no driver\n")


def test_a_verbose_command_prints_where_an_error_was_raised() -> None:
    short, quiet, long = failing(), failing("-q"), failing("-v")
    assert short.stderr == quiet.stderr and short.stderr.startswith("error: ")
    assert long.stderr.startswith("Traceback") and long.stderr.endswith(short.stderr)
    assert short.returncode == quiet.returncode == long.returncode

"""The frame of the command: help, suggestions, completion, statuses, messages, and what is never shown."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from precast.cli import main
from precast.loader import errors
from tests.cli.satellites import each_example, need_command
from tests.helpers.forks.forked_process import run
from tests.helpers.pages import command_of, examples
from tests.helpers.terminal import on_terminal

PRECAST = [sys.executable, "-m", "precast.cli.main"]


def precast(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, but in a process that is forked."""
    return run(words, os.environ | env)


def text_of(help_text: str) -> str:
    """The words of a help page or of an error, without its box."""
    return " ".join(help_text.replace("│", " ").split())


def test_version() -> None:
    done = precast("--version")
    assert done.stdout == f"precast {version('precast')} (loader {version('precast-loader')})\n"
    assert done.returncode == 0


def test_help_lists_every_command_under_the_heading_of_its_room() -> None:
    done = precast("--help")
    headings = [done.stdout.index(f"\n\n{main.PANELS[room]}:\n") for room in main.ROOMS]
    assert headings == sorted(headings)
    for start, names in zip(headings, main.ROOMS.values(), strict=True):
        group = done.stdout[start:].split("\n\n")[1]
        assert all(f"{name} {main.first_line(name)}" in text_of(group) for name in names)


@pytest.mark.parametrize("name", ["", *main.SUBCOMMANDS, *main.commands()])
def test_a_help_of_80_columns_has_no_orphan_and_no_type_of_python(name: str) -> None:
    need_command(name)
    lines = precast(*name.split(), "--help", COLUMNS="80").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert not re.search(r"<[\w\[\] ]+>(?!\.)|\b(?:bool|int range|str|Path)\b", shown.partition("\nExamples:")[0])
    for above, line in itertools.pairwise(lines):
        alone = re.fullmatch(r" +[^-\[\s]\S*", line)
        assert not (alone and len(above) > 60), f"a word that is alone in a line: {line}"


def test_a_help_has_colours_on_a_terminal_alone() -> None:
    words = [*PRECAST, "plan", "--help"]
    shown, plain = (on_terminal(words, env=env).written for env in ({}, {"NO_COLOR": "1"}))
    assert "\x1b[1mOptions:\x1b[0m" in shown and "\x1b[36m--target\x1b[0m" in shown
    assert "\x1b" not in plain and "\x1b" not in precast("plan", "--help").stdout


@pytest.mark.parametrize("distribution", ["attach", "measure", "publish"])
def test_a_command_whose_distribution_is_not_there_names_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, distribution: str
) -> None:
    name = f"absent from {distribution}"
    monkeypatch.setitem(main.SATELLITES, name, f"precast.{distribution}.absent")
    assert main.first_line(name) == f"Not installed: pip install 'precast[{distribution}]'."


def test_the_help_of_a_group_lists_its_commands() -> None:
    text = text_of(precast("tune", "--help").stdout)
    assert text == text_of(precast("tune").stdout or precast("tune").stderr) and "Usage: precast tune" in text
    assert all(f"{name} {main.first_line(f'tune {name}')}" in text for name in main.SUBCOMMANDS["tune"])


def test_every_file_that_defines_a_command_is_in_the_help() -> None:
    """And no other file is in the rooms of commands."""
    packages = [pytest.importorskip(f"precast.{name}.commands") for name in ("measure", "publish")]
    folders = [Path(main.__file__).parent / room for room in main.ROOMS]
    folders += [Path(package.__path__[0]) for package in packages]
    files = {
        path
        for folder in folders
        for path in folder.rglob("*.py")
        if path.name != "__init__.py" and path.parent.name != "shared"
    }
    homes = ("precast.cli.", "precast.measure.", "precast.publish.")
    names = [name for name in main.commands() if main.module_of(name).startswith(homes)]
    listed = {Path(importlib.import_module(main.module_of(name)).__file__ or "") for name in names}
    assert {path.resolve() for path in files} == {path.resolve() for path in listed}
    assert all(callable(importlib.import_module(main.module_of(name)).command) for name in main.commands())


@pytest.mark.parametrize("name", list(main.commands()))
def test_a_command_says_the_same_everywhere(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_command(name)
    monkeypatch.setenv("COLUMNS", "80")
    pages = []
    for option in ("-h", "--help"):
        with pytest.raises(SystemExit) as ended:
            main.run([*name.split(), option])
        assert ended.value.code == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1]
    assert main.commands()[name] in text_of(pages[0]) and f"Usage: precast {name} " in pages[0]
    assert all(line in pages[0] for line in examples(name))
    assert "…" not in pages[0], "at 80 columns, the name of an option is cut"


@pytest.mark.parametrize("line", each_example(dict.fromkeys(main.commands(), slice(None))))
def test_an_example_is_a_request_that_its_command_takes(line: str) -> None:
    program, *words = shlex.split(line.partition(" > ")[0])
    name = command_of(words)
    assert (program, line in examples(name)) == ("precast", True)
    main.load(name).make_context(name, words[len(name.split()) :])


def test_short_help_works_without_a_command() -> None:
    assert precast("-h").stdout == precast("--help").stdout != ""


@pytest.mark.parametrize(("typed", "meant"), [("bild", "build"), ("lst", "list"), ("docter", "doctor")])
def test_a_mistyped_command_is_a_wrong_request_with_a_suggestion(typed: str, meant: str) -> None:
    done = precast(typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"No such command '{typed}'; did you mean '{meant}'?" in text_of(done.stderr)


def test_a_mistyped_option_is_a_wrong_request_with_a_suggestion() -> None:
    done = precast("doctor", "--jsn")
    assert done.returncode == 2
    assert "No such option: --jsn" in done.stderr and "--json" in done.stderr


def completions(*words: str) -> list[str]:
    done = precast(
        COMP_WORDS=" ".join(["precast", *words]), COMP_CWORD=str(len(words)), _PRECAST_COMPLETE="complete_bash"
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_shell_completes_commands_and_their_options() -> None:
    assert completions("bu") == ["build", "bundle"]
    assert completions("bui") == ["build"]
    assert completions("build", "--remote-c") == ["--remote-cache"]
    assert completions("build", "--executor", "d") == ["dask"]
    assert completions("schema", "") == ["manifest", "index", "op"]
    assert completions("bild", "--rem") == []
    assert completions("tune", "m") == ["measure", "model"]
    need_command("tune prune")
    assert completions("tune", "prune", "--ti") == ["--times"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_calls_this_command(shell: str) -> None:
    done = precast("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0 and "_PRECAST_COMPLETE" in done.stdout


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
    assert ending(monkeypatch, error) == status
    assert capsys.readouterr() == ("", f"error: {error} ({error.code})\n")


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> object:
    """The exit status of a command that raises an error."""

    def failing(as_json: bool = False) -> None:
        raise error

    monkeypatch.setattr("precast.cli.inspect.doctor.command", failing)
    with pytest.raises(SystemExit) as ended:
        main.run(["doctor"])
    return ended.value.code


def test_a_file_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(monkeypatch, PermissionError(13, "Permission denied", "/etc/x.json")) == 1
    assert capsys.readouterr().err == "error: /etc/x.json: Permission denied: check the path and its permissions\n"


@pytest.mark.parametrize(("said", "line"), [((), "interrupted\n"), (("b.json stays",), "interrupted: b.json stays\n")])
def test_ctrl_c_ends_with_130_and_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: tuple[str, ...], line: str
) -> None:
    assert ending(monkeypatch, KeyboardInterrupt(*said)) == 130
    assert capsys.readouterr().err == line


def test_any_other_exception_keeps_its_traceback() -> None:
    script = (
        "from precast.cli import main\n"
        "from precast.cli.inspect import doctor\n"
        "def failing() -> None: raise ZeroDivisionError('unforeseen')\n"
        "doctor.command = failing\n"
        "main.run(['doctor'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr and "ZeroDivisionError: unforeseen" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--version"], ["schema", "manifest"], ["doctor", "--json"]])
def test_a_reader_that_leaves_early_is_no_error(words: list[str], unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([*PRECAST, *words], stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=env)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_status_of_a_wrong_argument_is_that_of_a_wrong_request() -> None:
    assert typer.BadParameter("").exit_code == main.WRONG


def test_json_goes_to_stdout_alone() -> None:
    done = precast("doctor", "--json")
    assert {check["name"] for check in json.loads(done.stdout)} >= {"python", "precast"} and done.stderr == ""

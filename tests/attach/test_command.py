"""``python -m precast.loader.attach``: the program runs as if it had been started itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import run

ATTACH = ("-m", "precast.loader.attach", "--library", "quack")
SHOW = """
import __main__, os, sys
print(__name__, sys.argv, os.path.basename(__file__), sys.path[0], __main__.mark if hasattr(__main__, "mark") else "")
mark = 1
print(__main__.mark, "" in sys.path, os.getcwd() in sys.path)
"""
FAIL = """
def inner():
    raise ValueError("from the script")

inner()
"""


def both(*words: str, cwd: Path) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """The same program attached, and by itself."""
    return attached(*words, cwd=cwd), run(*words, cwd=cwd)


def attached(*words: str, cwd: Path, path: Iterable[Path] = ()) -> subprocess.CompletedProcess[str]:
    """A program attached to a library, which need not be installed."""
    site = write_library(cwd.parent / "libraries", {}, package="quack", distribution="quack-kernels")
    return run(*ATTACH, *words, path=[site, *path], cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with programs, in another than the one they are run from."""
    programs = tmp_path / "programs"
    (programs / "package").mkdir(parents=True)
    for name, text in {
        "show.py": SHOW,
        "fail.py": FAIL,
        "wrong.py": "x = (\n",
        "exit.py": "import sys; sys.exit(7)",
        "text.py": "raise SystemExit('told')",
        # Where the tests run in the background, it is ignored.
        "interrupt.py": (
            "import os, signal as s\ns.signal(s.SIGINT, s.default_int_handler)\nos.kill(os.getpid(), s.SIGINT)"
        ),
        "package/__main__.py": SHOW,
        "package/__init__.py": "",
    }.items():
        (programs / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.py").symlink_to(programs / "show.py")
    return programs


@pytest.mark.parametrize(
    "words", [("../programs/show.py", "a", "--mode", "-m"), ("link.py",), ("PROGRAMS/package", "--report")]
)
def test_a_script_sees_what_it_always_does(words: tuple[str, ...], folder: Path) -> None:
    words = tuple(word.replace("PROGRAMS", str(folder)) for word in words)
    by_attach, alone = both(*words, cwd=folder.parent / "elsewhere")
    assert alone.returncode == 0, alone.stderr
    assert (by_attach.returncode, by_attach.stdout, by_attach.stderr) == (0, alone.stdout, alone.stderr)


def test_a_module_sees_what_it_always_does(folder: Path) -> None:
    by_attach, alone = both("-m", "package", "a", "-m", cwd=folder)
    assert alone.returncode == 0, alone.stderr
    assert (by_attach.returncode, by_attach.stdout, by_attach.stderr) == (0, alone.stdout, alone.stderr)


@pytest.mark.parametrize("name", ["fail.py", "exit.py", "text.py", "wrong.py"])
def test_an_end_is_the_scripts_own(name: str, folder: Path) -> None:
    by_attach, alone = both(f"{folder}/{name}", cwd=folder)
    assert alone.returncode != 0
    assert (by_attach.returncode, by_attach.stderr) == (alone.returncode, alone.stderr)


def test_an_interrupt_is_the_scripts_own(folder: Path) -> None:
    by_attach, alone = both(f"{folder}/interrupt.py", cwd=folder)
    assert by_attach.returncode == alone.returncode != 0
    assert "KeyboardInterrupt" in by_attach.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("missing.py",), "missing.py does not exist: name a script, or a module with -m"),
        (("--library", "quak", "fail.py"), "no library 'quak' is declared: use one of"),
        (("--mode", "fast", "fail.py"), "invalid choice: 'fast'"),
        (("--mode", "record", "--missing", "raise", "fail.py"), "use missing='compile' or 'skip'"),
        (("--target", "sm_9999", "fail.py"), "'sm_9999'"),
        (("--without-compiler", "fail.py"), "attach without without_compiler=True"),
        ((), "required: script"),
    ],
)
def test_a_wrong_request_ends_with_2_and_runs_nothing(words: tuple[str, ...], text: str, folder: Path) -> None:
    if "--without-compiler" in words:
        pytest.importorskip("cutlass")
    done = run("-m", "precast.loader.attach", *words, cwd=folder)
    assert done.returncode == 2
    assert text in done.stderr and "Traceback" not in done.stderr and "from the script" not in done.stderr


def test_the_report_comes_last_whatever_the_end(folder: Path, tmp_path: Path) -> None:
    done = attached("--report", f"{folder}/fail.py", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: from the script\nno attached library requested a kernel\n")
    site = write_library(tmp_path / "site", {"minilib/kernels.py": "def compiled(n): return n\n"})
    (folder / "use.py").write_text(
        "from precast.loader.attach import Functions, Library, attach\n"
        "seams = (Functions('minilib.kernels', ('compiled',)),)\n"
        "attach([Library(name='mine', distribution='minilib', package='minilib', seams=seams)])\n"
        "from minilib.kernels import compiled\n"
        "print(compiled(8))\n"
    )
    done = attached("--report", f"{folder}/use.py", path=[site], cwd=folder)
    assert done.stdout == "8\n"
    warning, first, second = done.stderr.splitlines()
    assert warning.startswith("precast: minilib.kernels:compiled is compiled in this process")
    assert first == "minilib.kernels:compiled: 0 served, 1 not"
    assert second.startswith("    1 x no cache holds attach.mine.kernels_compiled_")


def test_a_kernel_is_served_for_the_architecture_that_is_named(folder: Path) -> None:
    (folder / "which.py").write_text("from precast.loader.attach import attached\nprint(attached().target)\n")
    done = attached("--target", "sm_100a", f"{folder}/which.py", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "sm_100a\n"), done.stderr


def test_every_option_is_explained(folder: Path) -> None:
    help_text = run("-m", "precast.loader.attach", "--help", cwd=folder).stdout
    options = help_text.split("options:\n")[1]
    for name in ("--library", "--mode", "--missing", "--target", "--recording", "--without-compiler", "--report", "-m"):
        text = options.partition(f"\n  {name}")[2].partition("\n  -")[0]
        assert len(text.split()) > 4, f"{name}: {text}"

"""Companions of a process that attaches: placed before the engine's import, once; refused where frozen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.attach.companions.before_import import CompanionLeftOut, place_companions
from precast.attach.companions.companion import COMPANIONS
from precast.attach.companions.machine_facts import Machine
from tests.helpers.attach.companions import FILES, cache_with
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import IMPORTED

TRITON = COMPANIONS["triton"]
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a cache with Triton's files on the path of caches; the variables of the process come back afterwards."""
    for companion in COMPANIONS.values():
        monkeypatch.setenv(companion.variable, "")
        monkeypatch.delenv(companion.variable)
    monkeypatch.setenv("PRECAST_COMPANIONS_PLACED", "")
    monkeypatch.delenv("PRECAST_COMPANIONS_PLACED")
    monkeypatch.setenv("PRECAST_COMPANIONS", str(tmp_path / "placed"))
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(tmp_path / "cache"))

    def write(**changes: str) -> None:
        cache_with(tmp_path / "cache", facts={**Machine().facts(TRITON), **changes})

    return write


def test_the_variables_name_the_folders_and_processes_below_do_nothing(install: Install, tmp_path: Path) -> None:
    install()
    (line,) = place_companions(frozen=True)
    assert line.startswith("Triton: 3 files")
    folder = Path(os.environ["TRITON_CACHE_DIR"])
    assert folder.parent == tmp_path / "placed" and (folder / "K/add.cubin").read_bytes() == FILES["K/add.cubin"]
    os.environ["TRITON_CACHE_DIR"] = "/of/the/engine"
    assert place_companions(frozen=True) == () and os.environ["TRITON_CACHE_DIR"] == "/of/the/engine"


def test_what_does_not_fit_is_reported_and_compiled_as_before(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(triton="0.1")
    (line,) = place_companions(frozen=False)
    assert line.startswith("Triton: its files are not used: they are of triton 0.1; ")
    assert capsys.readouterr().err == f"precast: {line}\n" and "TRITON_CACHE_DIR" not in os.environ


def test_frozen_refuses_it_each_time(install: Install) -> None:
    install(triton="0.1")
    for _ in range(2):
        with pytest.raises(CompanionLeftOut, match=r"they are of triton 0\.1"):
            place_companions(frozen=True)


def test_it_can_be_switched_off(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    monkeypatch.setenv("PRECAST_COMPANIONS", "off")
    assert place_companions(frozen=True) == () and "TRITON_CACHE_DIR" not in os.environ


def test_caches_without_companions_cost_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRECAST_COMPANIONS", str(tmp_path / "placed"))
    monkeypatch.setenv("PRECAST_CACHE_PATH", "")
    assert place_companions(frozen=True) == () and not (tmp_path / "placed").exists()


def test_without_a_gpu_and_its_library_the_facts_say_so() -> None:
    facts = Machine("libnvidia-ml-of-no-machine.so.1").facts(COMPANIONS["cuda"])
    assert facts == {"gpu": "none", "driver": "none"}


ENGINE = "import os\nfound = os.environ.get('TRITON_CACHE_DIR')\n"
PROGRAM = """
from precast import loader
attached = loader.attach(["quack"])
import quack
print(quack.found)
print(attached)
"""


def test_an_attached_library_is_imported_after_its_companions_are_there(install: Install, tmp_path: Path) -> None:
    install()
    site = write_library(
        tmp_path / "site", {"quack/__init__.py": ENGINE}, package="quack", distribution="quack-kernels"
    )
    environment = {**os.environ, "PYTHONPATH": f"{site}:{IMPORTED}"}
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder, report = done.stdout.splitlines()[:2]
    assert folder.startswith(str(tmp_path / "placed")) and report.startswith("Triton: 3 files")

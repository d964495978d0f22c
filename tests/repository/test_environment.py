"""The set-up behind make: what it installs, when it does nothing, and that it never installs CUDA by accident."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pip
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "environment.py"


@pytest.fixture(scope="module")
def environment() -> ModuleType:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("environment", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["2.14.0", "2.13.0+cpu", "2.13.0"], True),
        (["2.14.0+cpu", "2.13.0"], False),
        (["2.13.0+cu130", "2.13.0"], False),
        (["2.13.0+cu130", "2.13.0+cpu"], False),
        ([], False),
    ],
)
def test_which_build_of_torch_pip_would_choose(environment: ModuleType, versions: list[str], expected: bool) -> None:
    assert environment.is_cpu_build(environment.chosen(versions, "2.13.0")) is expected


def test_everything_is_pinned(environment: ModuleType) -> None:
    lines = [line.partition(";")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines() if line]
    assert all(line.count("==") == 1 for line in lines), "every line pins one package"
    assert environment.pinned("torch") == "torch==2.13.0"
    with pytest.raises(LookupError, match="make lock"):
        environment.pinned("no-such-package")


def set_up(folder: Path, wheels: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script where pip sees one folder of wheels and nothing else, and no driver is seen either."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    quiet = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "TORCH_CUDA": ""}
    command = [sys.executable, str(SCRIPT), *words[:-1], str(folder), words[-1]]
    return subprocess.run(command, env=kept | quiet | variables, capture_output=True, text=True, check=False)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder that offers torch as the CUDA build only."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "torch-2.13.0-py3-none-any.whl").touch()
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """An environment whose pip is the pinned one already, so that nothing is downloaded."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for path in Path(pip.__path__[0]).parent.glob("pip*"):
        (site / path.name).symlink_to(path)
    (folder / "bin" / "pip").touch()
    (folder / ".ready").write_text("made from something else")
    return folder


@pytest.mark.slow
def test_the_cuda_build_is_refused_where_there_is_no_gpu(made: Path, wheels: Path, environment: ModuleType) -> None:
    if environment.has_gpu():
        pytest.skip("this machine has a GPU: the CUDA build is right here")
    done = set_up(made, wheels, "--torch", "pip")
    assert done.returncode == 1
    assert "No CPU build of torch 2.13.0" in done.stderr
    assert "TORCH_INDEX=" in done.stderr.splitlines()[-3] and "Traceback" not in done.stderr
    assert not (made / ".ready").exists(), "a refused environment does not count as ready"


@pytest.mark.slow
def test_the_cpu_build_is_recognised(made: Path, wheels: Path, tmp_path: Path, environment: ModuleType) -> None:
    offered = tmp_path / "cpu"
    offered.mkdir()
    (offered / "torch-2.13.0+cpu-py3-none-any.whl").touch()
    done = set_up(made, wheels, "--torch", "pip", TORCH_INDEX=str(offered))
    assert "No CPU build" not in done.stderr
    assert "torch-2.13.0+cpu" in done.stdout + done.stderr, "pip went on, and found that the wheel is empty"


def test_a_ready_environment_is_left_alone(tmp_path: Path, environment: ModuleType) -> None:
    folder = tmp_path / "venv"
    folder.mkdir()
    digest = environment.digest(folder, ["zstandard", "torch=False"], environment.files(["zstandard"]))
    (folder / ".ready").write_text(digest)
    done = set_up(folder, tmp_path, "zstandard")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [p.name for p in folder.iterdir()] == [".ready"]


def test_changed_requirements_are_noticed(tmp_path: Path, environment: ModuleType) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"one")
    first = environment.digest(tmp_path, ["a.whl"], environment.files([str(wheel)]))
    wheel.write_bytes(b"two")
    assert environment.digest(tmp_path, ["a.whl"], environment.files([str(wheel)])) != first
    assert environment.digest(tmp_path / "elsewhere", ["a.whl"], environment.files([str(wheel)])) != first

"""``precast plan`` and ``precast schema`` as a user runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.builds import environment, kept_store
from tests.helpers.forks.forked_process import run

MODULE = """
from precast.kernels import DType, Tuned, kernel
def narrow(config, target):
    return "too wide" if config["hidden"] > 64 and target.major == 9 else None
@kernel(op="acme.norm", targets=["sm_90+"], supports=narrow)
def norm(dtype: DType, hidden: int, threads: Tuned[int] = 128):
    "A norm."
"""
MANIFEST = """
version: 1
name: acme
targets: [sm_90a, sm_100a]
path: .
kernels:
  - compile: "acme_kernels:norm"
    config: {dtype: bf16, hidden: [64, 128]}
    tuned: {threads: [256, 128]}
    skip_unsupported: true
"""
READING = "reading 1 manifest and importing its kernels ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "acme_kernels.py").write_text(MODULE)
    (tmp_path / "m.yaml").write_text(MANIFEST)
    return tmp_path


def precast(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(words, environment(kept_store()), folder)


def test_says_every_variant(folder: Path) -> None:
    done = precast(folder, "plan", "m.yaml")
    assert done.returncode == 0
    assert done.stderr in ("", READING)  # it is said where reading takes a while
    assert done.stdout == (
        "acme.norm  (acme_kernels:norm)\n"
        "dtype     hidden  threads*  target   rank  emit    location\n"
        "bfloat16      64       128  sm_90a      1  object  m.yaml:7:5\n"
        "bfloat16      64       256  sm_90a      0  object  m.yaml:7:5\n"
        "bfloat16      64       128  sm_100a     1  object  m.yaml:7:5\n"
        "bfloat16      64       256  sm_100a     0  object  m.yaml:7:5\n"
        "bfloat16     128       128  sm_100a     1  object  m.yaml:7:5\n"
        "bfloat16     128       256  sm_100a     0  object  m.yaml:7:5\n"
        "\n"
        "skipped:\n"
        "  acme.norm(dtype=bfloat16, hidden=128, threads=128) for sm_90a: too wide  [m.yaml:7:5]\n"
        "  acme.norm(dtype=bfloat16, hidden=128, threads=256) for sm_90a: too wide  [m.yaml:7:5]\n"
        "\n"
        "op         target   variants\n"
        "acme.norm  sm_90a          2\n"
        "acme.norm  sm_100a         4\n"
        "\n"
        "acme: 6 variants, 2 skipped\n"
    )


def test_what_a_plan_has_read_is_kept_until_it_changes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A second plan starts no process that imports the kernels."""
    store = tmp_path_factory.mktemp("plan") / "store"

    def plan() -> str:
        return run(("plan", "m.yaml", "--store", store), environment(store), folder).stdout

    def descriptions() -> int:
        return len(list((store / "notes" / "kernels").iterdir()))

    first = plan()
    assert "too wide" in first and plan() == first and descriptions() == 1
    (folder / "acme_kernels.py").write_text(MODULE.replace("too wide", "wide").replace("> 64", "> 32"))
    assert "hidden=64, threads=128) for sm_90a: wide" in plan() and descriptions() == 2


def test_json_and_target(folder: Path) -> None:
    done = precast(folder, "plan", "m.yaml", "--target", "sm_100a", "--name", "mine", "--json")
    data = json.loads(done.stdout)
    assert (data["name"], len(data["variants"]), data["skipped"]) == ("mine", 4, [])
    assert data["ops"]["acme.norm"]["doc"] == "A norm."
    assert {v["target"] for v in data["variants"]} == {"sm_100a"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m.yaml", "--target", "sm_80"], "error: no manifest builds for sm_80: choose one of sm_90a, sm_100a"),
        (["m.yaml", "--target", "hopper"], "error: 'hopper' is not a target"),
        (["m.yaml", "-t", "sm_999"], "error: there is no profile of a GPU for sm_999: build for one of sm_80, "),
        (["m.yaml", "--name", "My Cache"], "error: 'My Cache' is not a name"),
        (["none.yaml"], "error: none.yaml:1:1: cannot be read"),
        (["."], "error: .:1:1: is a folder: name a file"),
        (
            ["m.yaml", "m.yaml"],
            "error: m.yaml:7:5: acme.norm(dtype=bfloat16, hidden=64, threads=256) for sm_90a is listed twice",
        ),
    ],
)
def test_a_wrong_request_exits_2_and_writes_nothing(folder: Path, words: list[str], message: str) -> None:
    before = sorted(folder.iterdir())
    done = precast(folder, "plan", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert [p for p in sorted(folder.iterdir()) if p.name != "__pycache__"] == before


def test_prints_schemas(folder: Path) -> None:
    done = precast(folder, "schema", "manifest")
    assert done.returncode == 0 and json.loads(done.stdout)["title"] == "precast manifest"
    assert precast(folder, "schema", "wheel").returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sm_100a"], "does not name two targets: write LISTED=WANTED, such as sm_100a=sm_103a"),
        (["sm_80=sm_120a"], "no manifest builds for sm_80: name one of sm_90a, sm_100a before the '='"),
        (["sm_100a=sm_90f"], "there is no sm_90f: families begin with sm_100f"),
        (["sm_100a=sm_75"], "there is no profile of a GPU for sm_75"),
        (["sm_100a=sm_120a", "sm_90a=sm_120a"], "names a target that another --retarget names: name each target once"),
    ],
)
def test_another_target_than_is_listed_must_make_sense(folder: Path, words: list[str], said: str) -> None:
    done = precast(folder, "plan", "m.yaml", *(part for word in words for part in ("--retarget", word)))
    assert done.returncode == 2 and said in done.stderr


def test_what_is_listed_for_one_target_is_planned_for_another(folder: Path) -> None:
    done = precast(folder, "plan", "m.yaml", "--retarget", "sm_100a=sm_90a", "--json")
    data = json.loads(done.stdout)
    assert {v["target"] for v in data["variants"]} == {"sm_90a"} and len(data["variants"]) == 2
    assert {s["reason"] for s in data["skipped"]} == {"too wide"}

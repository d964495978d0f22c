"""``precast requests`` as a user runs it: the manifest and the problems of what a program requested."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.builds import environment, kept_store
from tests.helpers.forks.forked_process import run

MODULE = """
from precast.kernels import DType, Tuned, kernel
@kernel(op="acme.norm", targets=["sm_90+"])
def norm(dtype: DType, hidden: int, threads: Tuned[int] = 128): ...
"""
REQUESTS = (
    '{"op":"acme.norm","config":{"hidden":64},"count":3,"problem":{"rows":8},"found":"%s","cache":"demo","wanted":'
    '{"op":"acme.norm","function":"acme_kernels:norm","config":{"dtype":"bfloat16","hidden":64},'
    '"tuned":{"threads":256},"target":"sm_90a"}}\n'
    '{"op":"acme.norm","config":{"hidden":32},"count":1,"missing":"VariantNotFound: no variant fits","wanted":'
    '{"op":"acme.norm","function":"acme_kernels:norm","config":{"dtype":"bfloat16","hidden":32},'
    '"tuned":{"threads":128},"target":"sm_100a"}}\n'
    '{"op":"acme.no'
) % ("ab" * 32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "acme_kernels.py").write_text(MODULE)
    (tmp_path / "requests.jsonl").write_text(REQUESTS)
    (tmp_path / "other.yaml").write_text("version: 1\nname: other\n")
    return tmp_path


def precast(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(words, environment(kept_store()), folder)


def test_the_manifest_is_one_that_plan_reads(folder: Path) -> None:
    done = precast(folder, "requests", "requests.jsonl", "--name", "mine", "-o", "requested.yaml")
    assert (done.returncode, done.stdout) == (0, "wrote requested.yaml\n")
    assert done.stderr.startswith("warning: requests.jsonl: the last line is incomplete")
    text = (folder / "requested.yaml").read_text()
    assert precast(folder, "requests", "requests.jsonl", "--name", "mine").stdout == text
    (folder / "requested.yaml").write_text(text.replace("\nkernels:", "\npath: .\nkernels:"))
    plan = precast(folder, "plan", "requested.yaml", "--json")
    variants = [(v["config"], v["target"]) for v in json.loads(plan.stdout)["variants"]]
    assert sorted(variants, key=str) == [
        ({"dtype": "bfloat16", "hidden": 32, "threads": 128}, "sm_100a"),
        ({"dtype": "bfloat16", "hidden": 64, "threads": 256}, "sm_90a"),
    ]


def test_only_some_requests_for_another_target(folder: Path) -> None:
    done = precast(folder, "requests", "requests.jsonl", "--only", "used", "-t", "sm_90", "--json")
    data = json.loads(done.stdout)
    assert data["problems"] == {"acme.norm": [{"problem": {"rows": 8}, "count": 3}]}
    assert [(entry["used"], entry["missing"], entry["targets"]) for entry in data["entries"]] == [(3, 0, ["sm_90"])]
    assert "hidden: 64" in data["manifest"] and "hidden: 32" not in data["manifest"]


def test_the_grid_is_the_requested_problems(folder: Path) -> None:
    done = precast(folder, "requests", "requests.jsonl", "--grid")
    assert done.stdout.endswith("problems:\n  acme.norm:\n    - {rows: 8}  # requested 3 times\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument 'REQUESTS...'"),
        (["requests.jsonl", "--only", "some"], "'some' is not one of 'missing', 'used'"),
        (["requests.jsonl", "--name", "A b"], "--name A b"),
        (["requests.jsonl", "-t", "hopper"], "'hopper' is not a target"),
        (["requests.jsonl", "-o", "none/m.yaml"], "name a file in a folder that exists"),
        (["none.jsonl"], "none.jsonl cannot be read"),
        (["other.yaml"], "other.yaml: line 1 of the requests: not JSON"),
    ],
)
def test_a_wrong_request_is_refused(folder: Path, words: list[str], message: str) -> None:
    done = precast(folder, "requests", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.replace("│", " ").split())

"""``python -m precast.loader``: what a server's operator can do where only the loader is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.loader.__main__ import main
from precast.loader.errors import PrecastError
from tests.helpers.caches import Native, demo
from tests.helpers.loader_fixtures import Use


@pytest.fixture(autouse=True)
def _demo(path: Path, use: Use) -> None:
    use(path)


def test_list_with_filters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--op", "scale", "--where", "dtype=bf16", "--where", "threads=128"]) == 0
    head, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["key", "op", "target", "kind", "cache", "config"]
    assert total == "2 artifacts of 1 op" and {row.split()[2] for row in rows} == {"sm_90a", "sm_100a"}
    assert main(["list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 13


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["list", "--op", "skale"], 1, "did you mean 'scale'? List without an op shows all (PCL06)"),
        (["list", "--where", "dtyp=bf16"], 2, "did you mean 'dtype'? (PCL01)"),
        (["list", "--where", "threads=129"], 2, "use one of 128, 256 (PCL01)"),
        (["explain", "scale", "dtype"], 2, "'dtype' is not KEY=VALUE"),
        (["explain", "scale", "dtype=bf16", "dtype=bf16"], 2, "dtype is given twice"),
        (["explain", "scale", "dtype=bfloat17", "--target", "sm_90a"], 2, "'bfloat17' is not a dtype"),
        (["explain", "scale", "dtype=bf16", "--problem", "m=x", "--target", "sm_90a"], 2, "m=x is not a size"),
        (["explain", "scale", "dtype=bf16", "--target", "sm90"], 2, "write it like 'sm_90a'"),
        (["error", "PCL77"], 2, "did you mean 'PCL17'?"),
    ],
)
def test_a_wrong_request_is_one_line_with_its_code(
    words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    printed = capsys.readouterr().err
    assert text in printed and printed.count("\n") == 1


def test_explain_is_the_decision_and_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "scale", "dtype=bf16", "threads=128", "--target", "sm_90a"]) == 0
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("scale {dtype: bfloat16, threads: 128} for sm_90a") and first.split()[0] == "taken"
    assert main(["explain", "scale", "dtype=bf16", "--target", "sm_120a", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["chosen"] is None and len(data["rejected"]) == 12


def test_an_error_is_explained_where_its_note_says(capsys: pytest.CaptureFixture[str]) -> None:
    note = next(iter(getattr(PrecastError("x"), "__notes__", ["PCL00: 'python -m precast.loader error PCL00' e"])))
    words = note.split("'")[1].split()
    assert words[:3] == ["python", "-m", "precast.loader"]
    assert main(words[3:]) == 0
    assert capsys.readouterr().out.startswith("PCL00 PrecastError\n\n")


def test_caches_of_one_name_are_told_apart(
    native: Native, path: Path, tmp_path: Path, use: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    other = demo(native, offset=1).write(tmp_path / "other")
    use(path, other)
    assert main(["explain", "twice", "--target", "sm_90a"]) == 0
    text = capsys.readouterr().out
    assert f"demo at {path}" in text and f"demo at {other}" in text
    assert main(["caches"]) == 0
    listing = capsys.readouterr().out
    assert str(path) in listing and str(other) in listing


def test_doctor_checks_the_machine_and_the_caches(path: Path, use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use(path, path.parent / "missing")
    assert main(["doctor"]) == 1
    lines = {line.split()[1]: line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1] != " "}
    assert (lines["python"], lines["precast-loader"]) == ("ok", "ok")
    assert main(["doctor", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert (checks["cache demo"]["status"], checks["cache missing"]["status"]) == ("ok", "fail")


def test_a_path_that_does_not_exist_is_reported_once(path: Path) -> None:
    script = "from precast import loader\nloader.ops(); loader.caches(refresh=True); print(*loader.ops())"
    env = os.environ | {"PRECAST_CACHE_PATH": f"/proc/nowhere:{path}"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    expected = (
        "precast: warning: PRECAST_CACHE_PATH names '/proc/nowhere', which does not exist: correct or remove it\n"
    )
    assert (done.stdout, done.stderr) == ("scale twice\n", expected)


def test_it_starts_as_a_module_and_imports_nothing_heavy(path: Path) -> None:
    env = os.environ | {"PRECAST_CACHE_PATH": str(path)}
    command = [sys.executable, "-X", "importtime", "-m", "precast.loader", "caches"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].split()[:3] == ["demo", "2", "13"]
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not modules & {"torch", "tvm_ffi", "typer", "rich", "yaml", "logging"}

"""``precast list`` and ``precast show``, on a real cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precast.cli.main import app
from precast.cli.shared.artifacts import NoSuchArtifact, artifacts_named
from precast.loader import session
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.errors import CacheError
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, demo


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture
def path(native: Native, tmp_path: Path) -> Path:
    return demo(native).write(tmp_path / "demo")


@pytest.fixture
def cache(path: Path) -> Cache:
    return Cache(path)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list(path: Path, cache: Cache) -> None:
    head, *rows, total = run("list", path).splitlines()
    assert head.split() == ["key", "op", "target", "kind", "stored", "config"]
    assert total == "demo: 13 artifacts of 2 ops" and len(rows) == 13
    assert {row.split()[0] for row in rows} == {a.key[:12] for op in cache.index.ops for a in cache.op(op).artifacts}
    data = json.loads(run("list", path, "--json"))
    assert data["name"] == "demo" and data["artifacts"][-1]["op"] == "twice"
    assert data["artifacts"][0]["config"]["layout"] == "row"


def test_show(path: Path, cache: Cache) -> None:
    chosen = cache.op("scale").artifacts[5]
    text = run("show", path, chosen.key[:10])
    assert f"key:        {chosen.key}" in text and "symbol:     __tvm_ffi_scale" in text
    assert "arguments:  (x: " in text and "host:       " in text
    assert [row["key"] for row in json.loads(run("show", path, chosen.key, "--json"))] == [chosen.key]
    assert run("show", path, "scale").count("symbol:") == 12


def test_explain_takes_the_cache_as_list_and_show_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "default", session.default)  # the command replaces it
    words = ("dtype=float32", "--target", "sm_90a")
    assert "taken" in run("explain", path, "scale", *words)
    with pytest.raises(CacheError):
        run("explain", path.parent, "scale", *words)


def test_what_is_assumed_of_a_gpu(native: Native, tmp_path: Path) -> None:
    writer = demo(native)
    listed = writer.ops["scale"]
    assumes = Assumptions(needs={"multiprocessor_count": 78}, speed={"l2_cache_size": 1})
    first, *others = listed.artifacts
    first = replace(first, assumes=assumes, provenance={"profile": ["H20", "H20 NVL"]})
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc="", artifacts=(first, *others))
    path = writer.write(tmp_path / "assuming")
    (row,) = (line for line in run("list", path).splitlines() if line.startswith(first.key[:12]))
    assert f"{first.target} on H20, H20 NVL" in row
    assert run("list", path).count(" on ") == 1
    assert [a["assumes"] for a in json.loads(run("list", path, "--json"))["artifacts"] if "assumes" in a] == [
        assumes.to_json()
    ]
    text = run("show", path, first.key)
    assert "needs:      a GPU whose multiprocessor_count is 78\n" in text
    assert "fastest on: a GPU whose l2_cache_size is 1\n" in text


def test_what_is_not_there(path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("skale", "0", "zzzzzzzz"):
        with pytest.raises(NoSuchArtifact, match=r"[Rr]un 'precast list'"):
            artifacts_named(cache, key)
    monkeypatch.setattr("precast.cli.shared.artifacts.SHORTEST_KEY", 0)
    with pytest.raises(NoSuchArtifact, match=r"13 keys start with.*give more"):
        artifacts_named(cache, "")
    with pytest.raises(CacheError):
        run("list", path / "blobs")


def test_show_says_what_the_author_says(native: Native, tmp_path: Path) -> None:
    writer = demo(native)
    writer.ops["scale"] = replace(writer.ops["scale"], doc="Multiply every element by a number.")
    shown = run("show", writer.write(tmp_path / "documented"), "scale")
    assert shown.count("summary:    Multiply every element by a number.") == 12

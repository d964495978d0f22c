"""Pushing to a folder, and to a hub through its own client and a double of its interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.fetch.fetcher import fetch
from precast.loader.errors import FetchError
from precast.publish.errors import PushError
from precast.publish.push.push import push_cache
from tests.helpers.packed_caches import tree
from tests.helpers.web.hub import Hub
from tests.helpers.web.many import QUICK, many
from tests.helpers.web.server import Request, Response, Server, serving


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    found = Hub()
    found.commit({"README.md": b"kernels"})
    return found


@pytest.fixture
def server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: the extra 'hub'")
    with serving(hub) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


def test_a_commit_holds_the_whole_cache(hub: Hub, server: Server, tmp_path: Path) -> None:
    cache = many(tmp_path / "cache")
    pushed = push_cache(cache, "hf://acme/kernels@main/h200")
    assert pushed.reference == f"hf://acme/kernels@{hub.refs['main']}/h200"
    assert hub.commits[hub.refs["main"]]["README.md"] == b"kernels", "what else is there stays"
    push_cache(many(tmp_path / "new", new=3), "hf://acme/kernels@main/h200")
    fetch(pushed.reference, tmp_path / "fetched", digest=pushed.digest, patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(cache), "a commit stays what it is"
    fetch("hf://acme/kernels/h200", tmp_path / "newer", patience=QUICK)
    assert tree(tmp_path / "newer") == tree(tmp_path / "new")


def test_a_commit_adds_what_is_new_and_deletes_what_is_old(hub: Hub, server: Server, tmp_path: Path) -> None:
    first = push_cache(many(tmp_path / "old"), "hf://acme/kernels@main/h200")
    push_cache(many(tmp_path / "old"), "hf://acme/kernels@main/a100")
    hub.commit({"h200/layers/notes.tar": b"mine"})
    again = push_cache(many(tmp_path / "new", new=3), "hf://acme/kernels@main/h200")
    files = hub.commits[hub.refs["main"]]
    ours = {name for name in files if name.startswith("h200/layers/")}
    assert len(ours) == again.layers + 1 and "h200/layers/notes.tar" in ours
    assert len([name for name in files if name.startswith("a100/layers/")]) == first.layers
    same = push_cache(many(tmp_path / "new", new=3), "hf://acme/kernels@main/h200")
    assert same.sent < 10_000 and same.kept > 100_000, "the table alone"
    fetch(first.reference, tmp_path / "before", patience=QUICK)
    assert tree(tmp_path / "before") == tree(tmp_path / "old")


def test_a_branch_that_moves_meanwhile_is_not_overwritten(hub: Hub, server: Server, tmp_path: Path) -> None:
    def moving(request: Request) -> Response:
        if "/preupload/" in request.path:
            hub.commit({"README.md": b"newer"})
        return hub(request)

    server.handler = moving
    with pytest.raises(FetchError, match=r"the branch has moved|412"):
        push_cache(many(tmp_path / "cache"), "hf://acme/kernels@main")
    assert not any(name.startswith("layers/") for name in hub.commits[hub.refs["main"]])


def test_a_hub_that_refuses(hub: Hub, server: Server, tmp_path: Path) -> None:
    hub.token = "hf_other"
    with pytest.raises(FetchError, match=r"the hub refused .*check the name, the revision and HF_TOKEN"):
        push_cache(many(tmp_path / "cache"), "hf://acme/kernels@main")


def test_a_folder_keeps_what_others_may_be_reading(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    old = push_cache(many(tmp_path / "old"), f"file://{shelf}")
    before = tree(shelf)
    again = push_cache(many(tmp_path / "old"), f"file://{shelf}")
    assert again.kept > 0.9 * old.sent and tree(shelf) == before
    push_cache(many(tmp_path / "new", new=3), f"file://{shelf}")
    layers = {name: data for name, data in before.items() if name.startswith("layers/")}
    assert layers.items() <= tree(shelf).items()
    fetch(f"file://{shelf}", tmp_path / "fetched")
    assert tree(tmp_path / "fetched") == tree(tmp_path / "new")
    assert json.loads((shelf / "layers.json").read_bytes())["format"] == "precast-layers"


def test_only_a_shelf_of_layers_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "main.c").write_text("int main;")
    with pytest.raises(PushError, match="has files that are not layers of caches"):
        push_cache(many(tmp_path / "cache"), f"file://{tmp_path / 'sources'}")
    with pytest.raises(PushError, match="is read-only: push to file:///FOLDER, and copy the folder"):
        push_cache(many(tmp_path / "cache"), "https://files.example.com/kernels")

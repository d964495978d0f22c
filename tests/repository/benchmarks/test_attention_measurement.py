"""benchmarks/attention.py: which peers have a time where some fault, hang or cannot be captured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.source_tree import ROOT

pytest.importorskip("yaml")
SMALL = {"model": "", "heads": 4, "group": 1, "size": 16, "batch": 3, "length": 12, "causal": True}


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files import each other, as where they are run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


class Processes:
    """Plays them: ``lost`` has what a peer does with graphs and without, or ``own`` what our variant does."""

    def __init__(self, lost: dict[tuple[str, bool], dict[str, bool]], times: dict[str, float] | None = None) -> None:
        self.lost, self.times = lost, times or {}
        self.requests: list[tuple[tuple[str, ...], bool]] = []

    def reply(self, name: str, request: Any) -> Any:
        self.requests.append((request.peers, request.graphs))
        for peer in request.peers:
            if (peer, request.graphs) in self.lost:
                raise module("measuring_process").Lost(f"{peer} is lost", **self.lost[peer, request.graphs])
        return module("attention_times").Times(
            chosen="plain",
            ours=(10.0,) * 8 if request.graphs else (20.0,) * 8,
            peers={peer: (self.times.get(peer, 12.0),) * 8 for peer in request.peers},
            candidates={},
            left_out={},
        )


def measurement(processes: Processes) -> Any:
    return module("attention").Measurement(processes, with_candidates=False)


def shape(layout: str) -> Any:
    return module("attention_shapes").Shape(**SMALL, layout=layout)


DENSE = ("torch", "torch by cuDNN", "torch by FlashAttention")


def test_dense_peers_are_timed_in_turns_in_one_process() -> None:
    processes = Processes({}, {"torch by cuDNN": 11.0})
    row = measurement(processes).timed(shape("dense"))
    assert processes.requests == [(DENSE, True)]
    assert (row.peer, row.ratio, row.ours, row.not_measured) == ("torch by cuDNN", 1.1, 10.0, {})


def test_a_dense_peer_that_faults_costs_its_own_time_alone() -> None:
    lost: dict[tuple[str, bool], dict[str, bool]] = {("torch by cuDNN", graphs): {} for graphs in (True, False)}
    processes = Processes(lost)
    row = measurement(processes).timed(shape("dense"))
    assert set(row.peers) == {"torch", "torch by FlashAttention"}
    assert row.not_measured == {"torch by cuDNN": "torch by cuDNN is lost"}


def test_a_peer_that_cannot_be_captured_is_timed_without_graphs_as_ours_beside_it() -> None:
    processes = Processes({("torch nested", True): {}}, {"torch nested": 21.0})
    timed = measurement(processes)
    row = timed.timed(shape("varlen"))
    assert row.without_graphs == ("torch nested",) and row.peers["torch nested"] == 21.0
    assert (row.peer, row.ratio, row.ours) == ("torch nested", 1.05, 10.0)
    assert not row.not_measured
    assert any("without graphs" in text for text in module("attention").lines(row))
    processes.requests.clear()
    timed.timed(shape("varlen"))
    assert (
        ("torch nested",),
        True,
    ) not in processes.requests  # it costs a process, and cannot be captured there either


def test_a_peer_that_hangs_is_not_requested_again() -> None:
    name = "torch packed by cuDNN"
    processes = Processes({(name, graphs): {"hung": True} for graphs in (True, False)})
    timed = measurement(processes)
    first = timed.timed(shape("varlen"))
    assert first.not_measured == {name: f"{name} is lost"} and len(first.peers) == 3
    processes.requests.clear()
    second = timed.timed(shape("varlen"))
    assert all(peers != (name,) for peers, _ in processes.requests)
    assert "earlier shape" in second.not_measured[name]


def test_where_our_variant_fails_no_peer_is_blamed() -> None:
    own = {(DENSE[0], True): {"own": True}}
    processes = Processes(own)
    timed = measurement(processes)
    with pytest.raises(module("measuring_process").Lost) as caught:
        timed.timed(shape("dense"))
    assert caught.value.own and len(processes.requests) == 1
    processes.lost = {}
    assert set(timed.timed(shape("dense")).peers) == set(DENSE)


def test_where_no_peer_has_a_time_the_shape_has_the_reasons() -> None:
    lost: dict[tuple[str, bool], dict[str, bool]] = {(name, graphs): {} for name in DENSE for graphs in (True, False)}
    with pytest.raises(module("measuring_process").Lost, match="torch by cuDNN is lost"):
        measurement(Processes(lost)).timed(shape("dense"))


def test_what_was_measured_is_in_the_file_with_what_was_not(tmp_path: Path) -> None:
    row = measurement(Processes({})).timed(shape("dense"))
    module("attention").write(tmp_path / "f.json", [row], {"GPT-2 1 x 2": "it faults"}, tuned=True)
    report = json.loads((tmp_path / "f.json").read_text())
    assert report["missing"] == "Not measured: GPT-2 1 x 2."
    assert report["reasons"] == {"GPT-2 1 x 2": "it faults"} and report["rows"][0]["ratio"] == 1.2
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]
    module("attention").write(tmp_path / "f.json", [], {}, tuned=False)
    assert json.loads((tmp_path / "f.json").read_text())["missing"] == ""

"""benchmarks/attention.py: its shapes, what it compares with float32, and its figures."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import yaml

from precast.build.measurements.tuning_file import TuningFile
from tests.helpers.source_tree import ROOT

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files import each other, as where they are run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


@functools.cache
def entries() -> list[dict[str, Any]]:
    """The entries of ``attention`` for Hopper in the manifests that are shipped."""
    found = []
    for path in sorted((ROOT / "manifests").glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text())
        found += [{"targets": manifest["targets"], **entry} for entry in manifest["kernels"]]
    return [entry for entry in found if entry.get("kernel") == "attention" and "sm_90a" in entry["targets"]]


def measured() -> Iterator[tuple[int, int, int]]:
    """Batch, queries and keys of what is tuned: in every tuning file, and in every manifest."""
    for path in sorted((ROOT / "manifests" / "tuning").glob("*.json")):
        for group in TuningFile.decode(path.read_bytes()).groups:
            for sizes in map(dict, group.problems):
                if {"batch", "queries", "keys"} <= set(sizes):
                    yield sizes["batch"], sizes["queries"], sizes["keys"]
    candidates = yaml.safe_load((ROOT / "benchmarks" / "attention-candidates.yaml").read_text())["kernels"]
    for entry in [*entries(), *candidates]:
        for problem in entry.get("problems", ()):
            yield from map(tuple, problem.get("batch,queries,keys", ()))
            lengths = problem.get("queries,keys", ())
            yield from ((problem["batch"], *pair) for pair in lengths)


def test_the_shapes_are_of_all_kinds() -> None:
    shapes = module("attention_shapes").shapes()
    assert len(shapes) == len(set(shapes)) >= 16
    assert {shape.group for shape in shapes} >= {1, 4, 7, 8}
    assert {(shape.size, shape.values) for shape in shapes} == {(64, 64), (128, 128), (192, 128)}
    assert {(shape.causal, shape.layout) for shape in shapes} == {
        *itertools.product((True, False), ("dense", "varlen"))
    }
    assert {(16, 512), (8, 2048), (1, 32768)} <= {(shape.batch, shape.length) for shape in shapes}
    for shape in shapes:
        assert shape.heads % shape.group == 0 and min(shape.lengths) > 0
        assert shape.layout == "dense" or len(set(shape.lengths)) > 1 or shape.batch == 1


@pytest.mark.slow
def test_no_tuning_has_a_shape_that_attention_is_measured_at() -> None:
    tuned = set(measured())
    assert len(tuned) > 5
    for shape in module("attention_shapes").shapes():
        problem = shape.problem
        assert (problem["batch"], problem["queries"], problem["keys"]) not in tuned, shape


@pytest.mark.slow
def test_what_is_shipped_serves_every_shape() -> None:
    attention = module("attention_shapes")
    own = {"head_dim_v": None, "heads_per_kv": 1, "causal": False, "layout": "dense", "window": False, "sink": False}

    def serves(entry: dict[str, Any], wanted: dict[str, Any]) -> bool:
        config = {**own, "decode": False, **entry["config"]}
        values = {name: value if isinstance(value, list) else [value] for name, value in config.items()}
        return all(value in values[name] for name, value in {**own, "decode": False, **wanted}.items())

    for shape in attention.shapes():
        assert any(serves(entry, attention.config(shape)) for entry in entries()), shape


SMALL = {"model": "", "heads": 4, "size": 16, "batch": 3, "length": 12}


@pytest.mark.parametrize("layout", ["dense", "varlen"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("group", [1, 2])
def test_rows_are_compared_with_what_torch_computes(layout: str, causal: bool, group: int) -> None:
    attention, peers = module("attention_shapes"), module("attention_peers")
    shape = attention.Shape(**SMALL, group=group, causal=causal, layout=layout)
    values = attention.inputs(shape, device="cpu")
    start = 0
    for i, length in enumerate(shape.lengths):
        mine = slice(i, i + 1) if layout == "dense" else slice(start, start + length)
        q, k, v = (values[name][mine].view(1, length, -1, 16).transpose(1, 2) for name in ("q", "k", "v"))
        values["out"][mine] = peers._sdpa(shape, q, k, v, None)().transpose(1, 2).view_as(values["out"][mine])
        start += length
    assert attention.wrong(shape, values) is None
    values["out"][..., -1, 0] += 0.25
    assert "elements are wrong" in str(attention.wrong(shape, values))
    values["out"].fill_(float("nan"))
    assert "elements are wrong" in str(attention.wrong(shape, values))


def test_a_padded_batch_has_the_rows_of_the_packed_one() -> None:
    attention, peers = module("attention_shapes"), module("attention_peers")
    shape = attention.Shape(**SMALL, group=2, causal=True, layout="varlen")
    q = attention.inputs(shape, device="cpu")["q"]
    padded = peers._padded(shape, q)
    assert padded.shape == (3, max(shape.lengths), 4, 16)
    for row, own in zip(padded, q.split(shape.lengths), strict=True):
        assert torch.equal(row[: len(own)], own) and not row[len(own) :].any()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("group", [1, 2])
def test_nested_tensors_have_the_rows_of_the_packed_ones(group: int) -> None:
    attention, peers = module("attention_shapes"), module("attention_peers")
    shape = attention.Shape(**SMALL, group=group, causal=False, layout="varlen")  # torch has no mask for them on a CPU
    values = attention.inputs(shape, device="cpu")
    nested = peers.peer("torch nested", shape, values)
    values["out"] = nested.result(nested.run())
    assert attention.wrong(shape, values) is None


def test_a_padded_batch_gives_the_results_of_the_packed_one() -> None:
    attention, peers = module("attention_shapes"), module("attention_peers")
    shape = attention.Shape(**SMALL, group=2, causal=True, layout="varlen")
    values = attention.inputs(shape, device="cpu")
    padded = [peers._padded(shape, values[name]).transpose(1, 2) for name in ("q", "k", "v")]
    values["out"] = peers._unpadded(shape, peers._sdpa(shape, *padded, None)().transpose(1, 2))
    assert attention.wrong(shape, values) is None


def test_without_a_mask_a_padded_batch_is_not_a_peer() -> None:
    attention, peers = module("attention_shapes"), module("attention_peers")
    names = {
        causal: peers.names(attention.Shape(**SMALL, group=1, causal=causal, layout="varlen"))
        for causal in (True, False)
    }
    assert names[True] == (*names[False], peers.PADDED) and peers.PADDED not in names[False]


def test_the_summary_takes_the_best_of_the_candidates() -> None:
    benchmark, attention = module("attention"), module("attention_shapes")
    shape = attention.Shape(**SMALL, group=1, causal=True)

    def row(ratio: float, candidates: dict[str, float]) -> Any:
        return benchmark.Timed(
            shape=shape, ours=10.0, teraflops=1.0, ratio=ratio, spread=0.0, chosen="a", peer="torch",
            peers={"torch": 10.0 * ratio}, candidates=candidates,
        )  # fmt: skip

    assert benchmark.summary([row(0.5, {}), row(2.0, {})]) == {"shapes": 2.0, "geometric_mean": 1.0, "least": 0.5}
    found = benchmark.summary([row(1.0, {"a": 10.0, "b": 8.0}), row(1.0, {"a": 10.0, "b": 12.0})])
    assert found["best_least"] == 1.0 and found["best_geometric_mean"] == round(1.25**0.5, 4)
    assert found["of_best"] == round(0.8**0.5, 4)

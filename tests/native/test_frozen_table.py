"""Frozen tables: the requests of a file, decided as loader.get decides them, in a folder of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.build.errors import ManifestError, OutputError
from precast.loader.contract.diagnostics.requests import RequestRecord
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from precast.native.frozen_table import freeze, write_table
from precast.native.requests_file import read_requests
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.gpu.programs import PROGRAM, SIGNATURE
from tests.helpers.loader_fixtures import Use, use
from tests.helpers.native.libprecast import frozen, request

__all__ = ["use"]

HOPPER = Machines().for_target("sm_90a")


def table_of(folder: Path) -> Any:
    return json.loads((folder / "table.json").read_bytes())


def keys_of(folder: Path) -> list[list[str]]:
    """The keys of the kernels of each request."""
    table = table_of(folder)
    return [[table["kernels"][place]["key"] for place in line["kernels"]] for line in table["requests"]]


def test_what_get_takes(path: Path, tmp_path: Path, use: Use) -> None:
    configs: tuple[dict[str, Any], ...] = (
        {"dtype": "bf16"}, {"dtype": "float16", "threads": 128}, {"dtype": "float32", "layout": "row"},
    )  # fmt: skip
    requests = [request(config=config) for config in configs]
    folder = frozen(path, tmp_path / "kernels", *requests, request("twice"))
    use(path)
    taken = [loader.get("scale", config, target="sm_90a") for config in configs]
    taken.append(loader.get("twice", target="sm_90a"))
    assert keys_of(folder) == [[kernel.artifact.key] for kernel in taken]
    assert [line["config"] for line in table_of(folder)["requests"]] == [*configs, {}]


def test_by_measurements(native: Native, tmp_path: Path) -> None:
    """Each problem gets the fastest, and what was not measured is noted."""
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    code = writer.keep(native.entry())
    small, large = (artifact(code, {"tile": tile}, rank=place) for place, tile in enumerate((64, 256)))
    measured = [
        Measured(gpu="Fake", capability=Capability(9, 0), problem={"m": m}, times={small.key: one, large.key: other})
        for m, one, other in ((16, 1.0, 2.0), (4096, 2.0, 1.0))
    ]
    keys = (Key(name="tile", type="int", tuned=True, has_default=True, default=64),)
    writer.ops["scale"] = OpIndex.of(op="scale", keys=keys, doc="", artifacts=(small, large), tuning=tuple(measured))
    cache = writer.write(tmp_path / "cache")
    requests = [request(problem={"m": m}) for m in (16, 4096)]
    folder = frozen(cache, tmp_path / "kernels", request(), *requests)
    assert keys_of(folder) == [[small.key], [small.key], [large.key]]
    (note,) = freeze([cache], [request(problem={"k": 1})], [HOPPER]).notes
    assert note.startswith("scale: ") and "has no measurement for a problem of k" in note


def test_what_other_machines_need(native: Native, tmp_path: Path) -> None:
    """A cubin beside an object, and an artifact for each GPU of the target, the preferred first; no other variant."""
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    config, code = {"dtype": "float32", "layout": "row", "threads": 1}, writer.keep(native.entry())
    facts = [Assumptions(needs={"multiprocessor_count": count}, speed={}) for count in (132, 78)]
    objects = [replace(artifact(code, config), key=f"{n:064x}", assumes=fact) for n, fact in enumerate(facts)]
    cubin = replace(artifact(code, config, kind="cubin", host=None), signature=SIGNATURE, program=PROGRAM)
    other = artifact(code, {**config, "threads": 2}, rank=1)
    writer.op("scale", [cubin, other, *objects])
    folder = frozen(writer.write(tmp_path / "cache"), tmp_path / "kernels", request(config={"dtype": "float32"}))
    assert keys_of(folder) == [[objects[0].key, objects[1].key, cubin.key]]
    rows = table_of(folder)["kernels"]
    assert [row.get("needs") for row in rows] == [facts[0].needs, facts[1].needs, None]
    assert ["program" in row for row in rows] == [False, False, True]


def test_targets_and_what_is_missing(path: Path, tmp_path: Path) -> None:
    folder = frozen(path, tmp_path / "kernels", request(config={"dtype": "bf16"}), targets=("sm_90a", "sm_100a"))
    assert [row["target"] for row in table_of(folder)["kernels"]] == ["sm_90a", "sm_100a"]
    with pytest.raises(loader.VariantNotFound, match=r"twice .* for sm_100a"):
        frozen(path, tmp_path / "none", request("twice"), targets=("sm_90a", "sm_100a"))
    with pytest.raises(loader.OpNotFound):
        frozen(path, tmp_path / "none", request("three"))
    assert not (tmp_path / "none").exists()


def test_several_caches(native: Native, path: Path, tmp_path: Path) -> None:
    """The first that serves a request counts; each kernel has the runtime library of its own cache."""
    first = CacheWriter(name="first")
    first.runtime(*native.runtime(3))
    first.op(
        "scale", [artifact(first.keep(native.entry(factor=3)), {"dtype": "bfloat16", "layout": "row", "threads": 7})]
    )
    requests = [request(config={"dtype": dtype}) for dtype in ("bf16", "float32")]
    table = json.loads(freeze([first.write(tmp_path / "first"), path], requests, [HOPPER]).data)
    assert [row["config"]["threads"] for row in table["kernels"]] == [7, 256]
    assert len({row["runtime"]["soname"] for row in table["kernels"]}) == 2


def test_the_same_bytes_and_no_others(path: Path, tmp_path: Path) -> None:
    """A second table in a folder replaces the first, with its blobs."""
    requests = [request(config={"dtype": dtype}) for dtype in ("bf16", "float32")]
    folder = frozen(path, tmp_path / "kernels", *requests)
    assert freeze([path], requests, [HOPPER]) == freeze([path], requests, [HOPPER])
    assert len(list((folder / "blobs").iterdir())) == 3
    frozen(path, folder, requests[0])
    named = {row["blob"]["sha256"] for row in table_of(folder)["kernels"]}
    named |= {row["runtime"]["blob"]["sha256"] for row in table_of(folder)["kernels"]}
    assert {file.name for file in (folder / "blobs").iterdir()} == named and len(named) == 2


def test_a_folder_that_holds_something_else(path: Path) -> None:
    """Such as the cache itself, whose blobs would go."""
    with pytest.raises(OutputError, match="holds other files: choose a new folder"):
        write_table(freeze([path], [request("twice")], [HOPPER]), path)
    assert (path / "index.json").is_file() and len(list((path / "blobs").iterdir())) > 3


def test_what_libprecast_would_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request(config={"dtype": "bf16"}, problem={"m": m}) for m in range(100_000)]
    monkeypatch.setattr("precast.native.frozen_table.VALUE_LIMIT", 1000)
    with pytest.raises(loader.ConfigError, match="a table of 200 requests is more than libprecast reads: freeze fewer"):
        freeze([path], requests[:200], [HOPPER])


def test_a_list_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text(
        "- {op: a.b, config: {list: [1, x], n: 1e-6}}\n- op: c\n  problems: [{m: [1, 2], 'n,k': [[3, 4]]}]\n"
    )
    sizes = {"n": 3, "k": 4}
    assert read_requests(file) == (
        (
            Request(op="a.b", config={"list": [1, "x"], "n": 1e-6}),
            Request(op="c", problem={"m": 1, **sizes}),
            Request(op="c", problem={"m": 2, **sizes}),
        ),
        (),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("op: a", ":1:1: expected a list, got a mapping"),
        ("[]", ":1:1: no request is listed: add one such as"),
        ("[{config: {a: 1}}]", ":1:2: 'op' is missing"),
        ("[{op: A}]", "'A' is not a name of an op"),
        ("[{op: a, problem: {m: 1}}]", "unknown key 'problem'; did you mean 'problems'?"),
        ("[{op: a, config: {a b: 1}}]", ":1:19: 'a b' is not a config key"),
    ],
)
def test_a_list_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        read_requests(file)
    assert words in str(caught.value)


def test_a_log_of_requests(path: Path, tmp_path: Path) -> None:
    """As PRECAST_REQUESTS writes it: what was missing then may be in the cache now."""
    log = tmp_path / "requests.jsonl"
    records = [
        RequestRecord(op="scale", config={"dtype": "float32"}, problem={"m": 8}, found="0" * 64, capability="9.0"),
        RequestRecord(op="twice", config={}, missing="no cache holds op 'twice'"),
    ]
    log.write_bytes(b"".join(record.line for record in records) + b'{"op": "sca')
    requests, (note,) = read_requests(log)
    assert "the last line is incomplete" in note
    assert requests == (request(config={"dtype": "float32"}, problem={"m": 8}), request("twice"))
    assert len(keys_of(frozen(path, tmp_path / "kernels", *requests))) == 2
    with pytest.raises(loader.ConfigError, match="name a file of requests"):
        read_requests(tmp_path / "none")

"""Requests as a manifest: it plans exactly what was asked for; and as a grid of problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.plan.describer import Description
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.plan import make_plan
from precast.build.plan.request_files import read_request_files
from precast.loader.contract.diagnostics.requests import ManifestEntry, RequestRecord
from precast.loader.contract.format.config import Key, to_json
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, FormatError
from precast.measure.requests import entries_of, grid_of, grid_text, manifest_of

TEXTS = st.sampled_from(["", "on", "null", "1", "1e3", "0x10", "a: b", "#", "${x}", "é", "[", "x y", "a\nb", '"'])
PLAIN = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(abs) | TEXTS
FORMS = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
ROWS = st.tuples(FORMS, FORMS, st.sampled_from(["sm_90a", "sm_100a"]), st.booleans(), st.integers(1, 9))


def requested(
    n: Any, tile: Any = 1, target: str | None = "sm_90a", found: bool = True, count: int = 1, **more: Any
) -> RequestRecord:
    wanted = ManifestEntry(
        op="acme.norm", function="acme:norm", config={"n": n}, tuned={"tile": tile}, env={}, target=target, **more
    )
    end: dict[str, Any] = {"found": "ab" * 32, "cache": "demo"} if found else {"missing": "VariantNotFound: none"}
    return RequestRecord(op="acme.norm", config={"n": n}, wanted=wanted, count=count, **end)


def planned(text: str) -> list[str]:
    manifest = parse_manifest(text.encode(), Path("m.yaml"))
    keys = (Key(name="n"), Key(name="tile", tuned=True))
    described = Description(op="acme.norm", source="acme:norm", keys=keys, declared=True)
    plan = make_plan([manifest], {entry.ref: described for entry in manifest.entries})
    return sorted(json.dumps([to_json(v.config["n"]), to_json(v.config["tile"]), str(v.target)]) for v in plan.variants)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_a_manifest_plans_exactly_what_was_asked_for(rows: list[tuple[Any, Any, str, bool, int]]) -> None:
    requests = [requested(*row) for row in rows]
    assert planned(manifest_of(requests)) == sorted({json.dumps([n, tile, target]) for n, tile, target, _, _ in rows})


def test_one_entry_has_the_targets_and_the_counts_of_all_who_asked() -> None:
    requests = [requested(8, count=5), requested(8, target="sm_100a", found=False, count=2), requested(8, count=1)]
    (entry,) = entries_of(requests)
    assert (entry.targets, entry.used, entry.missing) == ({"sm_90a", "sm_100a"}, 6, 2)
    text = manifest_of(requests, name="mine")
    assert text == (
        "version: 1\nname: mine\nkernels:\n"
        "  # requested 8 times, missing 2 times\n"
        '  - compile: "acme:norm"\n    op: acme.norm\n    config:\n      n: 8\n    tuned:\n      tile: 1\n'
        "    targets: [sm_100a, sm_90a]\n"
    )


def test_only_what_is_missing_or_used() -> None:
    requests = [requested(1), requested(2, found=False)]
    assert [entry.wanted.config["n"] for entry in entries_of(requests, only="missing")] == [2]
    assert [entry.wanted.config["n"] for entry in entries_of(requests, only="used")] == [1]


def test_a_request_without_a_target_needs_one() -> None:
    with pytest.raises(ConfigError, match=r"acme.norm was requested without a device.*give --target"):
        manifest_of([requested(1, target=None)])
    assert planned(manifest_of([requested(1, target=None)], targets=["sm_100a"])) == ['[1, 1, "sm_100a"]']


def test_what_no_entry_would_help_is_a_comment() -> None:
    helpless = RequestRecord(op="scale", config={"a": "x # y"}, missing="ConfigError: a is wrong", count=2)
    text = manifest_of([requested(1), helpless])
    assert text.endswith('#   scale {a: "x # y"}: ConfigError: a is wrong (2 times)\n')
    parse_manifest(text.encode(), Path("m.yaml"))
    with pytest.raises(ConfigError, match="none of the requests names a kernel"):
        manifest_of([helpless])


def test_parts_and_variables_are_kept() -> None:
    one = requested(1)
    assert one.wanted is not None
    wanted = replace(one.wanted, parts=("main", "rest"), env={"ACME": "1"})
    manifest = parse_manifest(manifest_of([replace(one, wanted=wanted)]).encode(), Path("m.yaml"))
    assert (manifest.entries[0].parts, manifest.entries[0].env) == (("main", "rest"), {"ACME": "1"})


def test_the_grid() -> None:
    requests = [
        replace(requested(1, count=2), problem={"m": 64, "n": 8}),
        replace(requested(2, count=3), problem={"m": 64, "n": 8}),
        replace(requested(2, count=9), problem={"m": 1, "n": 8}),
        requested(3),
    ]
    grid = grid_of(requests)
    assert grid == {"acme.norm": [({"m": 1, "n": 8}, 9), ({"m": 64, "n": 8}, 5)]}
    import yaml

    assert yaml.safe_load(grid_text(grid)) == {"problems": {"acme.norm": [{"m": 1, "n": 8}, {"m": 64, "n": 8}]}}
    assert "--op acme.norm --problem m=1,n=8 --problem m=64,n=8" in grid_text(grid)
    assert yaml.safe_load(grid_text({})) == {"problems": {}}


def test_files_are_added_up_and_a_cut_one_is_told(tmp_path: Path) -> None:
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(requested(1).line)
    other.write_bytes(requested(1, count=4).line + b'{"op"')
    requests, notes = read_request_files([one, other])
    assert [each.count for each in requests] == [5]
    assert len(notes) == 1 and notes[0].startswith(f"{other}: the last line is incomplete")


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"[]\n")
    with pytest.raises(FormatError, match=r"a\.jsonl: line 1 of the requests: expected an object, got list: remove it"):
        read_request_files([path])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_request_files([tmp_path / "none"])

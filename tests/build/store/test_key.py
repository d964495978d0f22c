"""The key of a variant: whatever can change the bytes that are built changes it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.plan.variant import Variant
from precast.build.store import key as keys
from precast.build.store.key import artifact_key, record_key, variant_key
from precast.loader.contract.format.target import Target
from tests.helpers.variants import variant

SOURCE = "0" * 64
OF_VARIANT: dict[str, dict[str, Any]] = {
    "op": {"op": "mine.other"},
    "config": {"config": {"n": 2}},
    "target": {"target": Target.parse("sm_100a")},
    "function": {"source": "mine:other"},
    "parts": {"parts": ("first", "second")},
    "environment": {"env": {"TILE": "64"}},
}


def key_of(one: Variant | None = None, toolchain: Toolchain | None = None, source: str = SOURCE) -> str:
    return variant_key(one or variant(1), toolchain or find_toolchain(), source)


@pytest.mark.parametrize("change", OF_VARIANT.values(), ids=OF_VARIANT)
def test_a_change_of_the_variant_changes_its_key(change: dict[str, Any]) -> None:
    assert key_of(replace(variant(1), **change)) != key_of() == key_of()


@pytest.mark.parametrize("tool", ["apache-tvm-ffi", "ld", "gcc"])
def test_another_version_of_a_tool_changes_the_key(tool: str) -> None:
    here = find_toolchain()
    assert key_of(toolchain=replace(here, versions={**here.versions, tool: "0.0"})) != key_of()


def test_another_static_library_changes_the_key(tmp_path: Path) -> None:
    archive = tmp_path / "libcuda_dialect_runtime_static.a"
    archive.write_bytes(b"another one")
    here = find_toolchain()
    assert key_of(toolchain=replace(here, archive=archive)) != key_of()


def test_other_sources_change_the_key() -> None:
    assert key_of(source="1" * 64) != key_of()


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(platform, "machine", lambda: "riscv64"),
        lambda patch: patch.setattr(keys, "FLAGS", ("-O0",)),
    ],
    ids=["processor", "flags of the linker"],
)
def test_another_host_or_another_way_to_link_changes_the_key(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of()
    change(monkeypatch)
    assert key_of() != before


def test_each_answer_changes_the_key_of_the_record() -> None:
    of = partial(record_key, key_of())
    made = [
        of({}, {}),
        of({"sms": 132}, {}),
        of({"sms": 78}, {}),
        of({}, {"variable:A": "1"}),
        of({}, {"variable:A": None}),
    ]
    assert len(set(made)) == len(made)


def test_an_artifact_has_a_key_of_its_own() -> None:
    made = {artifact_key(key_of(), op, kind) for op in ("norm", "norm.part") for kind in ("object", "cubin")}
    assert len(made) == 4

"""``verified=True``: only what was found right on a GPU of this compute capability serves; all else says why not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, VariantNotFound
from precast.loader.resolve.candidate import Request, checked_verified
from precast.loader.resolve.choose import choose
from precast.loader.resolve.evidence import unproven
from precast.loader.resolve.judge import resolve, resolve_every
from precast.loader.resolve.not_found import refuse
from tests.helpers.resolutions import HERE, scale, source

PASSED = {"check": "verify", "gpu": "NVIDIA H200", "capability": "9.0", "date": "2026-01-01T00:00:00Z", "failed": []}
FAILED = {**PASSED, "gpu": "NVIDIA H100", "failed": ["out at n=5, first run: 1 of 5 values differ"]}
ASKED = Request(op="scale", config={"dtype": "bf16"}, verified=True)


def with_evidence(*entries: dict[str, Any]) -> Any:
    return replace(scale(), evidence=entries)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((PASSED,), ""),
        ((PASSED, {"check": "memcheck", "failed": ["x"]}), ""),
        ((), "never verified on a GPU of 9.0: run 'precast verify CACHE --record' on one"),
        (({**PASSED, "capability": "10.0"},), "never verified on a GPU of 9.0, only on 10.0: run "),
        (({**PASSED, "check": "look"},), "never verified on a GPU of 9.0: run "),
        ((FAILED,), "found wrong on NVIDIA H100, 2026-01-01T00:00:00Z: out at n=5, first run"),
        ((PASSED, FAILED), "found wrong on NVIDIA H100"),
        (({"check": "verify", "capability": "9.0"},), "found wrong on a GPU: its evidence does not say how"),
    ],
)
def test_what_counts(entries: tuple[dict[str, Any], ...], reason: str) -> None:
    found = unproven(with_evidence(*entries), Capability(9, 0))
    assert found.startswith(reason) and bool(found) == bool(reason), found


EMULATED = {"check": "emulate", "emulated": 1, "seeds": 1, "date": "2026-02-02T00:00:00Z", "failed": []}
WRONG = {**EMULATED, "failed": ["out at n=5, first run: race"]}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((EMULATED,), ""),
        ((PASSED,), ""),
        ((PASSED, WRONG), ""),
        ((FAILED, EMULATED), "found wrong on NVIDIA H100"),
        ((EMULATED, WRONG), "found wrong by emulation, 2026-02-02T00:00:00Z: out at n=5, first run: race"),
        (({**PASSED, "capability": "10.0"}, EMULATED), ""),
        ((), "never emulated, nor verified on a GPU of 9.0: run 'precast verify CACHE --emulate'"),
        (({**PASSED, "capability": "10.0"},), "never emulated, nor verified on a GPU of 9.0, only on 10.0: run "),
    ],
)
def test_an_emulation_counts_where_it_is_requested(entries: tuple[dict[str, Any], ...], reason: str) -> None:
    found = unproven(with_evidence(*entries), Capability(9, 0), emulated=True)
    assert found.startswith(reason) and bool(found) == bool(reason), found


@pytest.mark.parametrize("entry", [EMULATED, {**EMULATED, "capability": "9.0"}])
def test_an_emulation_is_no_evidence_of_a_gpu(entry: dict[str, Any]) -> None:
    assert unproven(with_evidence(entry), Capability(9, 0)).startswith("never verified on a GPU of 9.0: run ")
    assert unproven(with_evidence(entry, FAILED), Capability(9, 0)).startswith("found wrong on NVIDIA H100")


def test_what_was_emulated_is_taken_where_that_suffices() -> None:
    one = source(replace(scale(), evidence=(EMULATED,)))
    assert choose(ASKED, HERE, [one]) is None
    asked = replace(ASKED, verified="emulated")
    assert choose(asked, HERE, [one]) is not None
    assert "verified or emulated only" in str(resolve(asked, HERE, [source(scale())]))
    with pytest.raises(VariantNotFound, match="'precast verify CACHE --emulate --record', or ask without verified"):
        refuse(resolve(asked, HERE, [source(scale())]))


def test_a_word_that_is_no_evidence_is_refused() -> None:
    with pytest.raises(ConfigError, match="verified is 'emulate': give True, False or 'emulated'"):
        checked_verified("emulate")


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x, max_size=3))


@given(st.lists(st.dictionaries(st.sampled_from([*PASSED]), JSON | st.sampled_from(["verify", "9.0"])), max_size=3))
def test_evidence_of_any_form_is_a_reason_or_none(entries: list[dict[str, Any]]) -> None:
    reason = unproven(with_evidence(*entries), Capability(9, 0))
    proven = [e for e in entries if e.get("check") == "verify" and e.get("capability") == "9.0"]
    assert bool(reason) == (not proven or any(e.get("failed") != [] for e in proven))


def test_one_that_was_verified_is_taken_before_the_authors_first() -> None:
    first, second = replace(scale(), rank=0), replace(scale(threads=256), rank=1, evidence=(PASSED,))
    one = source(first, second)
    assert choose(Request(op="scale", config={"dtype": "bf16"}), HERE, [one]).artifact == first  # type: ignore[union-attr]
    assert choose(ASKED, HERE, [one]).artifact == second  # type: ignore[union-attr]
    found = resolve(ASKED, HERE, [one])
    assert found.chosen is not None and found.chosen.artifact == second
    assert "never verified on a GPU of 9.0" in str(found) and "verified only" in str(found)
    assert len(resolve_every("scale", HERE, [one], verified=True).accepted) == 1
    assert len(resolve_every("scale", HERE, [one]).accepted) == 2


def test_the_error_says_that_it_was_never_verified_and_what_to_do() -> None:
    one = source(scale())
    assert choose(ASKED, HERE, [one]) is None
    with pytest.raises(VariantNotFound) as caught:
        refuse(resolve(ASKED, HERE, [one]))
    said = str(caught.value)
    assert said.endswith("run 'precast verify CACHE --record' on such a GPU, or ask without verified"), said


def test_a_variant_that_is_not_built_is_to_be_built_first() -> None:
    found = resolve(replace(ASKED, config={"dtype": "float16"}), HERE, [source(scale())])
    assert "put this in a manifest" in str(found)

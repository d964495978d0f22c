"""Where a target runs: every architecture held against every GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.target import TEGRA, Capability, Target, parse_capability
from precast.loader.errors import TargetError

DEVICES = ("8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "10.7", "11.0", "12.0", "12.1")
# CUDA Programming Guide: binary compatibility, and the table of family-specific targets. Orin (8.7) and Thor (11.0)
# are Tegra, for which there is no binary compatibility.
RUNS = {
    "sm_80": "8.0 8.6 8.9", "sm_86": "8.6 8.9", "sm_87": "8.7", "sm_89": "8.9",
    "sm_90": "9.0", "sm_90a": "9.0",
    "sm_100": "10.0 10.3 10.7", "sm_100a": "10.0", "sm_100f": "10.0 10.3 10.7",
    "sm_103": "10.3 10.7", "sm_103a": "10.3", "sm_103f": "10.3 10.7",
    "sm_110": "11.0", "sm_110a": "11.0", "sm_110f": "11.0",
    "sm_120": "12.0 12.1", "sm_120a": "12.0", "sm_120f": "12.0 12.1",
    "sm_121": "12.1", "sm_121a": "12.1", "sm_121f": "12.1",
}  # fmt: skip


@pytest.mark.parametrize("target", RUNS)
def test_where_it_runs(target: str) -> None:
    found = [device for device in DEVICES if Target.parse(target).runs_on(parse_capability(device))]
    assert found == RUNS[target].split()


@pytest.mark.parametrize("device", DEVICES)
def test_of_what_runs_the_exact_comes_first_then_families_then_plain(device: str) -> None:
    capability = parse_capability(device)
    fits = sorted((t for t in map(Target.parse, RUNS) if t.runs_on(capability)), key=lambda t: t.rank)
    kinds = [t.suffix for t in fits]
    assert kinds == sorted(kinds, key=["a", "f", ""].index)
    for suffix in ("f", ""):
        minors = [t.minor for t in fits if t.suffix == suffix]
        assert minors == sorted(minors, reverse=True), "the newest first"


@given(st.sampled_from(sorted(RUNS)), st.integers(8, 13), st.integers(0, 9))
def test_nothing_runs_on_another_major_or_an_older_minor(target: str, major: int, minor: int) -> None:
    one = Target.parse(target)
    if one.runs_on(Capability(major, minor)):
        assert major == one.major and minor >= one.minor
        assert minor == one.minor or one.suffix != "a"
        assert minor == one.minor or not {(major, minor), (one.major, one.minor)} & TEGRA


@pytest.mark.parametrize("text", ["sm_", "sm_9", "sm_090", "sm_90b", "sm90a", "sm_100A", "sm_1000", "compute_100f", ""])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(TargetError, match="is not a target"):
        Target.parse(text)

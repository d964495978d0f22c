"""Caches with more of everything than a cache has: artifacts, ops, values, bytes.

Counts and sizes are bounded, and checked before the work that they cause. What is refused is refused in about a second,
in a few times the memory of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.caches import Native
from tests.helpers.hostile.readers import in_python
from tests.helpers.hostile.sizes import CASES, HostileCache, honest_configs

pytestmark = pytest.mark.slow

SECONDS = 4.0  # of the processor: a machine that does much beside takes longer than one that rests
MEMORY = 1 << 30
WORDS = {
    "100,000 artifacts of one op, a config that none has": "no variant fits",
    "100,000 artifacts of one config": "more than the 4096",
    "100,000 ops with names like the requested one": "did you mean 'paged_attention.forward_kernel_",
    "180 MB of empty lists in an artifact": "values that this reader takes",
    "180 MB of empty lists in a config": "values that this reader takes",
    "180 MB of empty lists as measurements": "values that this reader takes",
    "100,000 measurements of an op": "5feceb66ffc8",  # the artifact; the measurements are left out
    "180 MB of empty objects on a single line": "values that this reader takes",
    "16 MB of empty lists in the index": "index.json",
    "94 million nested lists": "values that this reader takes",
    "a text of 180 MB": "is not one of object, cubin",
    "a blob of 1 GiB of zeros": "is not between 0 and 67108864",
    "an index of 8 GiB": "should have at most",
}


def checked(result: dict[str, Any], words: str) -> None:
    assert words in result["answer"], result
    assert result["seconds"] < SECONDS and result["memory"] < MEMORY, result
    assert len(result["answer"]) <= 4000


@pytest.mark.parametrize("case", [case for case in CASES if case.name in WORDS], ids=lambda case: case.name)
def test_what_is_too_much_is_refused_at_once(native: Native, tmp_path: Path, case: HostileCache) -> None:
    root = case.make(native, tmp_path / "cache")
    checked(in_python(case, root), WORDS[case.name])


def test_what_is_large_and_honest_is_served(native: Native, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.honest)
    root = case.make(native, tmp_path / "cache")
    result = in_python(case, root)
    assert len(result["answer"]) == 12 and result["seconds"] < SECONDS, result
    assert result["again"] < 0.05, "a further request is a lookup"


def test_each_case_is_tested() -> None:
    others = {case.name for case in CASES} - WORDS.keys()
    assert others == {"100,000 artifacts of one op", "100,000 artifacts of one op on a single line"}
    assert len(honest_configs()) == 100_000

"""``precast check`` and functions that compile several objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.build.cache.coverage import Coverage, coverage
from precast.loader.contract.format.config import to_value
from tests.helpers.attach.mini_library import PACKAGE
from tests.helpers.attached import MINE, key_of, write_cache
from tests.helpers.caches import Native
from tests.helpers.packed_caches import scale_plan

FUNCTION = f"{PACKAGE}.kernels:compiled"


def test_precast_check_reports_a_function_that_lacks_an_object(native: Native, installed: Path, tmp_path: Path) -> None:
    plan = scale_plan("bfloat16")
    config = {name: to_value(value) for name, value in key_of({"n": 1}).items()}
    asked = replace(plan, variants=(replace(plan.variants[0], op=MINE.op(FUNCTION), config=config),))

    def found(*numbers: int) -> Coverage:
        folder = tmp_path / str(len(numbers))
        provenance = {"objects": 2}
        write_cache(native, folder, FUNCTION, [key_of({"n": 1})], provenance=provenance, numbers=numbers)
        return coverage(asked, CacheContents.open(folder))

    whole, part = found(0, 1), found(0)
    assert (whole.complete, whole.present, whole.extra) == (True, 1, ())
    assert [one.reason for one in part.missing] == ["the cache has 1 of the 2 objects of this function"]

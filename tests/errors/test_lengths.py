"""No error fills a screen: under 40 lines and 4000 characters, however many variants, faults or caches there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.manifest import parse_manifest
from precast.cli.shared.excerpt import error_text
from precast.loader.errors import VariantNotFound
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.discover import DiscoveredCache, unknown_op
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.not_found import refuse
from tests.helpers.resolutions import HERE, scale, source

WRONG = sorted((Path(__file__).parents[1] / "build" / "plan" / "wrong").glob("*.yaml"))
LINES, CHARACTERS = 40, 4000


def check(text: str) -> None:
    assert text.count("\n") + 1 < LINES and len(text) < CHARACTERS, text


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_wrong_manifest(path: Path) -> None:
    try:
        parse_manifest(path.read_bytes(), path)
    except ManifestError as error:
        check(str(error))
        check(error_text(error))


@pytest.mark.parametrize("width", [1, 3000])
def test_a_manifest_with_a_thousand_faults(width: int, tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    wrong = "".join(f"  - {{kernal: {'x' * width}{number}}}\n" for number in range(1000))
    path.write_text(f"version: 1\nname: many\ntargets: [sm_90a]\nkernels:\n{wrong}")
    with pytest.raises(ManifestError) as raised:
        parse_manifest(path.read_bytes(), path)
    assert len(raised.value.others) == 999
    check(str(raised.value))
    text = error_text(raised.value)
    check(text)
    assert text.endswith("more errors: correct these first")


def test_a_miss_among_a_thousand_variants_with_many_reasons() -> None:
    variants = [scale(dtype=f"float{8 << n % 3}", layout=f"layout-{n}" * 9, threads=n) for n in range(1000)]
    with pytest.raises(VariantNotFound) as missed:
        refuse(resolve(Request(op="scale", config={"dtype": "bf16", "layout": "row"}), HERE, [source(*variants)]))
    check(str(missed.value))


def test_an_unknown_op_among_a_hundred_caches(tmp_path: Path) -> None:
    caches = tuple(
        DiscoveredCache(name=f"c{n}", path=tmp_path / f"cache{n}", origin="PRECAST_CACHE_PATH") for n in range(100)
    )
    text = str(unknown_op("rmsnorm", caches))
    check(text)
    assert "and 90 more: loader.caches() lists them" in text

"""Each file in refused/ reads well and cannot be planned; its first line says the place and the message it must get."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.describer import Description, NotDescribed
from precast.build.plan.entry import KernelRef
from precast.build.plan.manifest import read_manifest
from precast.build.plan.plan import make_plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.config import Key

REFUSED = sorted((Path(__file__).parent / "refused").glob("*.yaml"))
NORM = Description(
    op="acme.norm",
    source="acme:norm",
    targets=("sm_90+",),
    declared=True,
    has_supports=True,
    keys=(
        Key(name="dtype", type="dtype"),
        Key(name="hidden", type="int"),
        Key(name="layout", type="str", choices=("row", "column"), has_default=True, default="row"),
        Key(name="tile", type="list[int]", has_default=True, default=(64, 64)),
        Key(name="threads", type="int", tuned=True, has_default=True, default=128),
    ),
)
PLAIN = Description(op="acme.plain", source="acme:plain", keys=(Key(name="n", type="int"),))
DESCRIBED: dict[KernelRef, Description | NotDescribed] = {
    KernelRef("acme.norm"): NORM,
    KernelRef("acme.plain", "acme:plain"): PLAIN,
    KernelRef("acme.a.b.c", "acme:plain"): Description(op="acme.a.b.c", source="acme:plain", keys=PLAIN.keys),
    KernelRef("acme.norm", "acme:plain"): Description(op="acme.norm", source="acme:plain", keys=PLAIN.keys),
    KernelRef(None, "acme:broken"): NotDescribed("there is no module 'acme': install it"),
}


def refusals(variants: Sequence[Variant]) -> list[str | None]:
    return ["too wide" if v.config.get("hidden") == 65536 else None for v in variants]


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_says_where_and_what(path: Path) -> None:
    place, expected = path.read_text().split("\n", 1)[0].removeprefix("# ").split(" ", 1)
    manifest = read_manifest(path)
    with pytest.raises(ManifestError) as caught:
        make_plan([manifest], DESCRIBED, refusals=refusals)
    assert str(caught.value).startswith(f"{path}:{place}: {expected}")


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) >= 20

"""The lock of a toolchain is in every key: any of what it installs may change what is compiled."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from precast.build.errors import Location
from precast.build.interpreter import HERE
from precast.build.link.toolchain import LOCK, find_toolchain
from precast.build.plan.variant import Variant
from precast.build.store.key import key_parts, variant_key
from precast.loader.contract.format.target import Target

VARIANT = Variant(
    op="scale",
    source="precast.kernels.own.elementwise.scale:scale",
    config=MappingProxyType({"dtype": "bfloat16"}),
    target=Target.parse("sm_90a"),
    location=Location("m.yaml", 1, 1),
)


def test_another_lock_is_another_key() -> None:
    here = find_toolchain()
    locked = [replace(here, versions={**here.versions, LOCK: digest * 64}) for digest in "01"]
    keys = {variant_key(VARIANT, one, "0" * 64) for one in (here, *locked)}
    assert len(keys) == 3


def test_what_no_lock_says_is_in_no_key() -> None:
    here = find_toolchain()
    assert LOCK not in here.versions and not HERE.locked
    assert LOCK not in key_parts(VARIANT, here, "0" * 64)

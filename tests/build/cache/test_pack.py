"""Packing: what the artifacts of a built variant are."""

from __future__ import annotations

from dataclasses import replace

from precast.build.cache.pack import built_artifacts
from precast.build.gpu.profile import Profiles
from precast.build.store.record import Product, Record
from tests.helpers.caches import signature
from tests.helpers.packed_caches import X86, scale_plan


def test_each_object_of_a_function_has_a_key_of_its_own() -> None:
    (variant,) = scale_plan("float16").variants
    products = tuple(
        Product(
            op=op,
            symbol=f"__tvm_ffi_{op}",
            signature=signature("float16"),
            target=variant.target,
            host=X86,
            resources=(),
            obj=b"object",
            library=b"library",
            cubins=(),
        )
        for op in ("scale.forward", "scale.backward")
    )
    record = Record(key="0" * 64, products=products, seconds=1.0)
    built = list(built_artifacts(replace(variant, parts=("forward", "backward")), record, Profiles()))
    assert [each.op for each in built] == ["scale.forward", "scale.backward"]
    assert len({each.artifact.key for each in built}) == 2

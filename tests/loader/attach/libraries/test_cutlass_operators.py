"""Keys of CUTLASS operators: what decides the kernel is in them, the sizes of a problem are not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cutlass.operators")

import cutlass.operators as ops
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from precast.loader.attach.keys import UnknownKey, canonical, encode
from precast.loader.attach.libraries import cutlass_operators
from precast.loader.attach.libraries.cutlass_operators import _Compilation, describe


def arguments(m: int = 512, *, b_major: str = "n", dtype: Any = torch.bfloat16, **more: Any) -> Any:
    with FakeTensorMode():
        a, b = torch.empty(m, 256, dtype=dtype), torch.empty(256, 1024, dtype=dtype)
        b = b if b_major == "n" else torch.empty(1024, 256, dtype=dtype).T
        return ops.GemmArguments(a, b, torch.empty(m, 1024, dtype=dtype), accumulator_type=torch.float32, **more)


def operators(given: Any) -> list[Any]:
    found: list[Any] = ops.get_operators(given, target_sm="90a")
    return found


def key(given: Any, operator: Any, *, target: str | None = None, entry: Any = None, clusters: Any = 132) -> str:
    tensors = (given.A.tensor, given.B.tensor, given.out.tensor)
    made = _Compilation(operator=operator, entry=entry or operator.impl, arguments=(*tensors, clusters), target=target)
    return canonical(encode(made, describe=describe))


def test_one_key_serves_all_sizes() -> None:
    first, *_ = operators(arguments())
    assert key(arguments(), first) == key(arguments(64), first)


def test_what_decides_the_kernel_is_in_the_key() -> None:
    first, second, *_ = operators(arguments())
    other_layout, other_dtype = arguments(b_major="k"), arguments(dtype=torch.float16)
    keys = [
        key(arguments(), first),
        key(arguments(), second),
        key(arguments(), first, target="90a"),
        key(arguments(), first, clusters=66),
        key(other_layout, operators(other_layout)[0]),
        key(other_dtype, operators(other_dtype)[0]),
    ]
    assert len(set(keys)) == len(keys)
    assert " at 0x" not in "".join(keys)


def test_metadata_that_the_name_does_not_tell_is_in_the_key() -> None:
    first, *_ = operators(arguments())
    before = key(arguments(), first)
    first.metadata.design.num_smem_stages = 3
    assert key(arguments(), first) != before


def test_what_a_key_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments()
    first, *_ = operators(given)
    with pytest.raises(UnknownKey, match="something else than its implementation"):
        key(given, first, entry=object())
    with pytest.raises(UnknownKey, match="no form as a key"):
        key(given, first, clusters=object())
    first.metadata.epilogue = object()
    with pytest.raises(UnknownKey, match="with an epilogue"):
        key(given, first)
    monkeypatch.setattr(cutlass_operators, "_uses_tvm_ffi", lambda: False)
    with pytest.raises(UnknownKey, match="leave it on"):
        key(given, first)


def test_classes_of_operators_are_named_by_their_place_and_not_as_the_compilers() -> None:
    first, *_ = operators(arguments())
    assert encode(type(first)) == f"$ref:{type(first).__module__}:{type(first).__qualname__}"

"""Keys of CUTLASS operators: what decides the kernel is in them, the sizes of a problem are not."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("cutlass.operators")

import cutlass.operators as ops
import cutlass.operators.base as base
import cutlass.operators.providers.cutedsl.operator as cutedsl
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from precast.attach.libraries import cutlass_operators
from precast.attach.libraries.cutlass_operators import _Compilation, describe
from precast.attach.recordings.function_state import state_of_function
from precast.attach.recordings.keys import UnknownKey, canonical, encode


def arguments(m: int = 512, *, b_major: str = "n", dtype: Any = torch.bfloat16, real: bool = False) -> Any:
    with nullcontext() if real else FakeTensorMode():
        a, b = torch.empty(m, 256, dtype=dtype), torch.empty(256, 1024, dtype=dtype)
        b = b if b_major == "n" else torch.empty(1024, 256, dtype=dtype).T
        return ops.GemmArguments(a, b, torch.empty(m, 1024, dtype=dtype), accumulator_type=torch.float32)


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
    with pytest.raises(UnknownKey, match="keep TVM-FFI on"):
        key(given, first)


def test_what_is_compiled_outside_of_an_operators_compile_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.Operator, "compile", lambda self, given, target=None: self.cute_compile(self.impl))
    monkeypatch.setattr(cutedsl.CuteDslOperator, "cute_compile", lambda self, entry, *, target_sm=None: None)
    calls: list[Any] = []
    source: Any = SimpleNamespace(obtain=lambda *asked, call: calls.append((call, _outcome(call))))
    cutlass_operators.OperatorCompile().install(source, cast(Any, None))
    given = arguments(real=True)
    operator = next(one for one in operators(given) if isinstance(one, cutedsl.CuteDslOperator))
    operator.compile(given)
    operator.cute_compile(operator.impl)
    (inside, noted), (_, refused) = calls
    assert set(noted) == {"arguments"} and "outside of its compile()" in str(refused)
    assert isinstance(_outcome(inside), UnknownKey)  # the arguments are not kept beyond the call


def test_its_hooks_leave_the_state_of_the_methods_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a fact of each kernel: a hook must not look like a change of the program."""
    methods = [(base.Operator, "compile"), (cutedsl.CuteDslOperator, "cute_compile")]
    before = [vars(owner)[name] for owner, name in methods]
    for (owner, name), method in zip(methods, before, strict=True):
        monkeypatch.setattr(owner, name, method)  # restored afterwards
    cutlass_operators.OperatorCompile().install(cast(Any, None), cast(Any, None))
    for (owner, name), method in zip(methods, before, strict=True):
        assert vars(owner)[name] is not method
        assert state_of_function(vars(owner)[name], whole=True) == state_of_function(method, whole=True) != []


def _outcome(call: Any) -> Any:
    try:
        return call()
    except UnknownKey as error:
        return error


def test_classes_of_operators_are_named_by_their_place_and_not_as_the_compilers() -> None:
    first, *_ = operators(arguments())
    assert encode(type(first)) == f"$ref:{type(first).__module__}:{type(first).__qualname__}"

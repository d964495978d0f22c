"""How a kernel is called with what a declaration's inputs made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from precast.loader.contract.format.signature import Argument, Signature
from precast.measure.launching.cases import bound


def signature_of(*arguments: Argument) -> Any:
    """A kernel that gives back how it was called."""

    class Called:
        signature = Signature(arguments=arguments)

        def __call__(self, *given: Any, **named: Any) -> tuple[Any, ...]:
            return given, named

    return Called()


def test_inputs_are_bound_by_the_names_of_the_signature() -> None:
    """An argument that the target does not take may lie between; and inputs may stand in another order."""
    scalar = [Argument(name=name, kind="scalar", dtype="int32") for name in "abc"]
    nothing = Argument(name="mask", kind="none")
    stream = Argument(name="stream", kind="env_stream")
    assert bound(signature_of(*scalar, nothing, nothing), {"a": 1, "b": 2, "c": 3})() == ((1, 2, 3, None, None), {})
    assert bound(signature_of(*scalar, stream), {"c": 3, "a": 1, "b": 2, "more": 9})() == ((1, 2, 3), {})
    assert bound(signature_of(scalar[0], nothing, *scalar[1:]), {"a": 1, "b": 2, "c": 3})() == ((1,), {"b": 2, "c": 3})
    assert bound(signature_of(scalar[0], nothing), {"a": 1, "mask": None})() == ((1, None), {})
    assert bound(signature_of(*scalar), {"x": 1, "y": 2})() == ((1, 2), {}), "other names: as they stand"
    assert bound(lambda *given: given, {"x": 1, "y": 2})() == (1, 2)


def test_a_pointer_is_passed_as_an_address() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(1)
    pointer = Argument(name="p", kind="pointer", dtype="float32")
    assert bound(signature_of(pointer), {"p": tensor})() == ((tensor.data_ptr(),), {})


def test_a_stream_that_the_caller_must_give_is_the_current_one_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    handles = iter([7, 8])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=next(handles)))
    scalar, stream = Argument(name="a", kind="scalar", dtype="int32"), Argument(name="stream", kind="stream")
    call = bound(signature_of(scalar, stream), {"a": 1})
    assert [call(), call()] == [((1,), {"stream": 7}), ((1,), {"stream": 8})]
    assert bound(signature_of(scalar, stream), {"a": 1, "stream": 9})() == ((1, 9), {}), "one that is given"

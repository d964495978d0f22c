"""Bound calls: a kernel with the arguments that its declaration's ``inputs`` made, ready to be called."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Set
from typing import Any, cast

from precast.loader.contract.format.signature import Argument, Signature


def bound(launch: Callable[..., Any], values: Mapping[str, Any]) -> Callable[[], Any]:
    """The call of a kernel with what its declaration's ``inputs`` made.

    They are passed by name where they cover all that the kernel takes, less those that its target does not take; else
    in their order. Arguments in the order of the signature are passed without names, which costs the host less. A
    stream that they leave out is the current one of each call. An emulated kernel has an ``own_stream``, and gets
    tensors for pointers. What has a ``bind`` of its own makes the call itself.
    """
    if (bind := getattr(launch, "bind", None)) is not None:
        return cast(Callable[[], Any], bind(values))
    signature = getattr(launch, "signature", None)
    taken = {a.name for a in signature.passed if not a.always_none} if isinstance(signature, Signature) else {""}
    streams = _streams(signature) - set(values)
    if not taken - streams <= set(values):
        return functools.partial(launch, *values.values())
    assert isinstance(signature, Signature)
    accepted = [a for a in signature.passed if a.name in values]
    own_stream = getattr(launch, "own_stream", None)
    keeps = own_stream is not None
    first = list(itertools.takewhile(lambda pair: pair[0] is pair[1], zip(accepted, signature.passed, strict=False)))
    ordered = [_as_passed(a, values[a.name], keeps) for a, _ in first]
    named = {a.name: _as_passed(a, values[a.name], keeps) for a in accepted[len(first) :]}
    if keeps:
        named |= dict.fromkeys(streams, own_stream)
        streams = set()
    if not named and not streams:  # a call without names passes everything
        ordered += [a.none_value for a in signature.passed[len(first) :]]
    call = functools.partial(launch, *ordered, **named)
    return functools.partial(_on_current, call, streams) if streams else call


def _streams(signature: Signature | None) -> set[str]:
    """The arguments that are streams, of a kernel that takes one from its caller."""
    return {a.name for a in signature.passed if a.kind == "stream"} if isinstance(signature, Signature) else set()


def _on_current(call: Callable[..., Any], streams: Set[str]) -> Any:
    import torch

    current = int(torch.cuda.current_stream().cuda_stream)
    return call(**dict.fromkeys(streams, current))


def _as_passed(argument: Argument, value: Any, keeps: bool) -> Any:
    """A pointer is passed as the address of its tensor, unless the kernel ``keeps`` the tensor."""
    is_address = argument.kind == "pointer" and hasattr(value, "data_ptr") and not keeps
    return value.data_ptr() if is_address else value

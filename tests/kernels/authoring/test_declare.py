"""Declarations: what @kernel keeps, and what it refuses."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from precast.kernels import Declaration, declaration_of, kernel
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format.target import Target


def plain(n: int) -> int:
    return n + 1


def test_the_function_stays_as_it_is() -> None:
    def function(n: int) -> int:
        return n + 1

    declared = kernel(op="mine.add", targets=["sm_90a"])(function)
    assert declared is function and declared(1) == 2
    found = declaration_of(function)
    assert (found.op, found.targets, [k.name for k in found.keys]) == ("mine.add", ("sm_90a",), ["n"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.op = "other"  # type: ignore[misc]


def test_a_declaration_is_seen_through_a_cache() -> None:
    @functools.cache
    @kernel(op="cached")
    def function(n: int) -> int:
        return n

    @kernel(op="cached")
    @functools.cache
    def other(n: int) -> int:
        return n

    assert declaration_of(function) == declaration_of(other)


def test_a_plain_function_needs_an_op() -> None:
    with pytest.raises(DeclarationError, match="declares no op"):
        declaration_of(plain)
    found = declaration_of(plain, "mine.plain")
    assert (found.op, found.targets, found.verifiable) == ("mine.plain", (), False)


def test_a_manifest_may_rename_a_declared_op() -> None:
    @kernel(op="mine", targets=["sm_90a"])
    def function(n: int) -> int:
        return n

    assert declaration_of(function, "mine") is declaration_of(function)
    renamed = declaration_of(function, "yours")
    assert (renamed.op, renamed.targets) == ("yours", ("sm_90a",))
    with pytest.raises(DeclarationError, match="lower-case"):
        declaration_of(function, "Not A Name")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"op": "Bad Name"}, "op 'Bad Name'"),
        ({"op": "x", "targets": "sm_90a"}, "write a list"),
        ({"op": "x", "targets": ["sm_9"]}, "sm_9"),
        ({"op": "x", "targets": ["sm_90a+"]}, "sm_90+"),
        ({"op": "x", "outputs": "out"}, "write a list"),
        ({"op": "x", "reference": "yes"}, "reference is 'yes'"),
        ({"op": "x", "arguments": {"mX": "not a name"}}, "'not a name' is not a valid name"),
    ],
)
def test_misuse_is_refused_where_it_stands(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        kernel(**wrong)(plain)
    assert message in str(caught.value) and "plain" in str(caught.value)
    assert not hasattr(plain, "__precast__")


def test_what_takes_no_attributes_is_refused() -> None:
    class Slotted:
        __slots__ = ()

        def __call__(self, n: int) -> int:
            return n

    with pytest.raises(DeclarationError, match="takes no attributes"):
        kernel(op="x")(Slotted())


def test_refusals() -> None:
    declaration = Declaration(
        op="x", keys=(), targets=("sm_90a", "sm_100+"), supports=lambda config, target: f"never on {target}"
    )
    assert "sm_90a, sm_100+, not sm_80" in str(declaration.refusal({}, Target.parse("sm_80")))
    assert declaration.refusal({}, Target.parse("sm_103a")) == "never on sm_103a"
    assert Declaration(op="x", keys=()).refusal({}, Target.parse("sm_80")) is None

"""Arguments that can only be None: left out of a call by name, and put where the compiled function wants them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError
from precast.loader.launch.kernel import Kernel
from tests.helpers.echo import HOPPER

NONE = Argument(name="bias", kind="none")
PAIR = Argument(name="extra", kind="tuple", members=(NONE, NONE))
SIGNATURE = Signature(
    arguments=(
        Argument(name="mX", kind="tensor", dtype="float32", shape=("n",)),
        NONE,
        PAIR,
        Argument(name="eps", kind="scalar", dtype="float32"),
        Argument(name="stream", kind="env_stream"),
    )
).renamed({"mX": "x"})


def kernel(seen: list[Any]) -> Any:
    """A kernel whose entry keeps what it is called with."""
    artifact: Any = SimpleNamespace(config={}, target=Target.parse("sm_90a"), signature=SIGNATURE, assumes=None)
    return Kernel("op", artifact, lambda *args: seen.append(args), lambda: HOPPER)


def test_what_can_only_be_none_may_be_left_out_of_a_call_by_name() -> None:
    seen: list[Any] = []
    call = kernel(seen)
    call(x=1, eps=2.0)
    call(1, eps=2.0)
    call(1, None, (None, None), 2.0)
    assert seen == [(1, None, (None, None), 2.0)] * 3
    with pytest.raises(TypeError, match="misses x"):
        call(eps=2.0)
    with pytest.raises(TypeError, match="no argument 'mX'"):
        call(mX=1, eps=2.0)


def test_names_stay_apart() -> None:
    with pytest.raises(ConfigError, match="two arguments would be called 'eps'"):
        SIGNATURE.renamed({"x": "eps"})

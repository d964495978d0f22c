"""Configs: what counts as one value."""

from __future__ import annotations

import math

from precast.loader.contract.format.config import Key, normalise, to_value


def test_the_two_zeros_are_one_config() -> None:
    """They are equal, so that a look-up finds either, but their canonical texts, and so the keys, would differ."""
    key = Key(name="offset", type="float")
    assert math.copysign(1, normalise([key], {"offset": -0.0}, op="shift")["offset"]) == 1  # type: ignore[arg-type]
    assert math.copysign(1, to_value([-0.0])[0]) == 1  # type: ignore[index, arg-type]

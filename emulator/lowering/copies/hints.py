"""Modifiers that change nothing but speed."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering


def take_cache_hint(to: Lowering) -> None:
    """Take ``.L2::cache_hint`` and its operand, which is the last one."""
    if to.modifiers.take("L2::cache_hint"):
        to.source(to.operands.pop(), bits=64)

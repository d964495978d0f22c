"""Launches that no GPU takes are faults before anything runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from precast.emulator import Launch, emulate

KERNEL = """.version 8.8
.target {target}
.address_size 64
.visible .entry k()
{{
    .shared .align 16 .b8 tile[1024];
    .reg .b32 %r<2>;
    mov.u32 %r1, tile;
    ret;
}}
"""
RIGHT = Launch(kernel="k", grid=(4, 1, 1), block=(128, 1, 1))
KB = 1024


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"block": (3000, 1, 1)}, "a block of 3000 x 1 x 1 threads"),
        ({"block": (64, 32, 1)}, "a block of 2048 threads"),
        ({"block": (1, 1, 65)}, "a block of 1 x 1 x 65 threads"),
        ({"block": (0, 1, 1)}, "a block of 0 x 1 x 1 threads"),
        ({"grid": (1, 70_000, 1)}, "a grid of 1 x 70000 x 1 blocks"),
        ({"grid": (34, 1, 1), "cluster": (17, 1, 1)}, "a cluster of 17 x 1 x 1 blocks"),
        ({"cluster": (3, 1, 1)}, "cannot be divided into clusters"),
        ({"block": (1024, 1, 1), "registers": 72}, "1024 threads with 72 registers each are launched in a block"),
        ({"shared": 227 * KB}, r"233472 bytes of shared memory are requested, and 232448 are the most of sm_90a"),
    ],
)
def test_a_launch_beyond_a_limit_is_a_fault(change: dict[str, object], reason: str) -> None:
    fault = emulate(KERNEL.format(target="sm_90a"), replace(RIGHT, **change)).fault  # type: ignore[arg-type]
    assert fault is not None and fault.kind == "launch" and reason in fault.text


@pytest.mark.parametrize(("target", "most"), [("sm_80", 163), ("sm_90a", 227), ("sm_100a", 227), ("sm_120a", 99)])
def test_shared_memory_is_that_of_the_target(target: str, most: int) -> None:
    text = KERNEL.format(target=target)
    assert emulate(text, replace(RIGHT, shared=(most - 1) * KB)).fault is None
    assert emulate(text, replace(RIGHT, shared=(most - 1) * KB + 1)).fault is not None

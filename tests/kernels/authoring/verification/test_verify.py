"""An output that a kernel reads before it writes it keeps what it holds; any other is poisoned before the launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from precast.kernels.authoring.declare import Declaration
from precast.kernels.authoring.verification.verify import verify


def checks(in_place: Sequence[str]) -> list[bool]:
    declaration = Declaration(
        op="double",
        keys=(),
        problems=lambda config: [{"n": 8}],
        inputs=lambda config, problem, *, device, seed: {"x": torch.arange(8.0, device=device)},
        outputs=("x",),
        in_place=tuple(in_place),
        reference=lambda config, inputs: {"x": inputs["x"].double() * 2},
    )

    def double(x: Any) -> None:
        x.mul_(2)

    return [check.passed for check in verify(double, declaration, {}, device="cpu") if not check.left_out]


def test_what_is_read_before_it_is_written_is_not_poisoned() -> None:
    assert set(checks(["x"])) == {True}


def test_what_is_not_said_to_be_read_is_poisoned() -> None:
    assert not any(checks([]))

"""What torch has for the same computes the same: otherwise a ratio to it says nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from tests.helpers.kernels.peer_cases import CASES
from tests.helpers.kernels.stand_in import full


@pytest.mark.parametrize(("op", "config", "problem", "names"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_peer_computes_what_the_reference_does(
    op: str, config: dict[str, Any], problem: dict[str, int], names: tuple[str, ...]
) -> None:
    declaration = declaration_of(load(find(op)))
    assert declaration.inputs and declaration.reference and declaration.peer
    config = full(op, config)
    inputs = declaration.inputs(config, problem, device="cpu", seed=3)
    kept = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    expected = declaration.reference(config, kept)
    for run in declaration.peer(config, inputs).values():
        made = run()
        found = dict(zip(names, made if isinstance(made, tuple) else (made,), strict=True))
        for name in names:
            if name:
                # What was dropped of a gathering has no row in what torch makes of it.
                wanted = (
                    expected[name].reshape(-1, expected[name].shape[-1])[: len(found[name])]
                    if op == "moe_permute"
                    else expected[name]
                )
                error = (found[name].double() - wanted.double()).abs().max()
                assert error <= 0.07 * wanted.double().abs().max(), name
    strided = declaration.inputs(config, {**problem, "padding": 16}, device="cpu", seed=3)
    for run in declaration.peer(config, strided).values():
        run()  # or there is none

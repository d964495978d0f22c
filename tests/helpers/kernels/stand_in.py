"""A kernel's reference in its place: what ``verify`` must pass, and must not pass with one result spoiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.contract.format.config import complete
from precast.measure.checks.verify import verify


def full(op: str, config: dict[str, Any]) -> dict[str, Any]:
    """A config with the defaults of its op."""
    return complete(declaration_of(load(find(op))).keys, config, op=op)


def check_verify(op: str, config: dict[str, Any], *, most: int = 100) -> None:
    """Verify the reference of an op on the CPU, on problems of few rows, and then with each output wrong."""
    config, declared = full(op, config), declaration_of(load(find(op)))
    assert declared.problems and declared.inputs and declared.reference
    names = list(declared.inputs(config, declared.problems(config)[0], device="cpu", seed=0))
    few = [p for p in declared.problems(config) if max(p.get(n, 0) for n in ("rows", "tokens", "n")) < most]
    assert len(few) > 2, "some problems are small"
    declaration = replace(declared, problems=lambda config: few, large=None)

    def stand_in(spoil: str) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            assert declared.reference
            for name, result in declared.reference(config, values).items():
                wrong = result * 1.03 if result.dtype.is_floating_point else result + 1
                if values[name] is not None:
                    values[name].copy_(wrong if name == spoil else result)

        return launch

    right = list(verify(stand_in(""), declaration, config, device="cpu"))
    assert all(check.passed for check in right), [str(check) for check in right if not check.passed][:3]
    assert {check.output for check in right if check.output} == {
        name
        for name in declared.outputs
        if config.get(name, True)  # the residual is left out where there is none
    }
    for name in {check.output for check in right if check.output}:
        assert any(not check.passed for check in verify(stand_in(name), declaration, config, device="cpu"))

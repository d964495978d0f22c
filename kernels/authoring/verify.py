"""Verifying: launch on random inputs with poisoned outputs, and compare the results with the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.format.config import Config
from precast.loader.format.signature import Argument, Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One output of one launch. ``error`` is the largest difference, as a share of what the tolerance allows."""

    problem: Problem
    output: str
    error: float
    fault: str = ""

    @property
    def passed(self) -> bool:
        """Whether the output is within the tolerance of the reference."""
        return not self.fault

    def __str__(self) -> str:
        shape = " ".join(f"{name}={value}" for name, value in self.problem.items())
        return f"{self.output} at {shape}: {self.fault or f'{self.error:.2f} of the tolerance'}"


def verify(
    launch: Callable[..., Any], declaration: Declaration, config: Config, *, device: Any = "cuda", seed: int = 0
) -> Iterator[Check]:
    """Launch every problem that the declaration names, and check every output.

    Every byte behind an output is poisoned before the launch, including the padding between its rows. So values that
    are left unwritten are found, and so are writes outside the output. An output that is None is skipped.
    """
    if not declaration.verifiable:
        raise DeclarationError(
            f"{declaration.op} cannot be verified: give its @kernel problems, inputs, outputs and a reference"
        )
    assert declaration.problems and declaration.inputs and declaration.reference
    for number, problem in enumerate(declaration.problems(config)):
        values = declaration.inputs(config, problem, device=device, seed=seed + 1000 * number)
        expected = declaration.reference(config, values)  # before the launch: a kernel may change its inputs
        outputs = [name for name in declaration.outputs if values[name] is not None]
        for name in outputs:
            held = values[name].clone() if name in declaration.in_place else None
            poison(values[name])
            if held is not None:
                values[name].copy_(held)
        _launch(launch, values)
        for name in outputs:
            yield _check(declaration, config, problem, name, values[name], expected[name])


def _launch(launch: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Pass values by name where they cover all that the kernel takes, less those that its target does not take."""
    signature = getattr(launch, "signature", None)
    taken = {a.name for a in signature.passed if not a.always_none} if isinstance(signature, Signature) else {""}
    if taken <= set(values):
        assert isinstance(signature, Signature)
        launch(**{a.name: _as_passed(a, values[a.name]) for a in signature.passed if a.name in values})
    else:
        launch(*values.values())


def _as_passed(argument: Argument, value: Any) -> Any:
    """A pointer is passed as the address of its tensor."""
    return value.data_ptr() if argument.kind == "pointer" and hasattr(value, "data_ptr") else value


def poison(tensor: Any) -> None:
    """Fill all the memory behind a tensor: with NaN where its type has one, else with a pattern."""
    import torch

    if tensor.numel() == 0:
        return
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    if tensor.dtype.is_floating_point and tensor.element_size() > 1:
        whole.view(tensor.dtype)[...] = float("nan")
    else:
        whole.fill_(0xA5)


def _check(declaration: Declaration, config: Config, problem: Problem, name: str, result: Any, expected: Any) -> Check:
    error, fault = difference(declaration, config, result, expected)
    return Check(problem=problem, output=name, error=error, fault=fault or _spill(result))


def difference(declaration: Declaration, config: Config, result: Any, expected: Any) -> tuple[float, str]:
    """How far a tensor is from what is expected, as a share of the tolerance; and what is wrong, or nothing.

    Parameters
    ----------
    declaration, config
        They give the tolerance; without one the two must be equal.
    result, expected
        Tensors of torch.
    """
    import torch

    found = result.to(torch.float64) if result.dtype.is_floating_point else result
    expected = expected.to(found.dtype)
    if found.shape != expected.shape:
        return (
            math.inf,
            f"the reference has shape {tuple(expected.shape)}, not {tuple(found.shape)}: correct the reference",
        )
    error = 0.0
    if found.numel():
        if found.dtype.is_floating_point:
            tolerance = declaration.tolerance(config) if declaration.tolerance else None
            rtol, atol = (tolerance.rtol, tolerance.atol) if tolerance else (0.0, 0.0)
            share = (found - expected).abs() / (atol + rtol * expected.abs())
            share = torch.where(found == expected, 0.0, share)
            error = float(share.nan_to_num(nan=math.inf, posinf=math.inf).max())
        else:
            error = 0.0 if bool((found == expected).all()) else math.inf
    return error, "" if error <= 1.0 else _fault(found, expected, error)


def _fault(found: Any, expected: Any, error: float) -> str:
    wrong = (found != expected).nonzero()
    unwritten = int(found.isnan().sum()) if found.dtype.is_floating_point else 0
    more = f", {unwritten} left unwritten or NaN" if unwritten else ""
    return f"{error:.3g} times the tolerance; {len(wrong)} of {found.numel()} values differ{more}"


def _spill(result: Any) -> str:
    """Whether the padding between the rows of a matrix was written to."""
    import torch

    if result.dim() < 2 or result.is_contiguous() or not result.dtype.is_floating_point or result.element_size() == 1:
        return ""
    whole = torch.empty(0, dtype=result.dtype, device=result.device).set_(result.untyped_storage())
    mask = torch.zeros_like(whole, dtype=torch.bool)
    mask.as_strided(result.shape, result.stride(), result.storage_offset()).fill_(True)
    touched = int((~whole.isnan() & ~mask).sum())
    return f"{touched} values written outside the output" if touched else ""


def outcome(checks: list[Check]) -> Mapping[str, Any]:
    """A summary of checks, as it is stored in a cache as evidence."""
    return {
        "problems": len({tuple(c.problem.items()) for c in checks}),
        "failed": [str(c) for c in checks if not c.passed],
        "worst": max((c.error for c in checks), default=0.0),
    }

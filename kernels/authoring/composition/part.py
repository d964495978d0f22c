"""Parts: how one of the objects of a function that compiles several is verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is declared of one part, as of a kernel of its own.

    A function of a part's name, a config and a target makes it, since the parts of one launch meet in memory whose
    order is theirs, and may be another on another target.

    >>> half = Part(
    ...     problems=[{"n": 4}],
    ...     inputs=lambda config, problem, *, device, seed: {"x": [1.0] * problem["n"], "out": [0.0] * problem["n"]},
    ...     outputs=("out",),
    ...     reference=lambda config, inputs: {"out": [x / 2 for x in inputs["x"]]},
    ... )
    >>> half.reference({}, half.inputs({}, {"n": 2}, device="cpu", seed=0))
    {'out': [0.5, 0.5]}
    """

    problems: Sequence[Mapping[str, int]]
    inputs: Callable[..., dict[str, Any]]
    outputs: tuple[str, ...]
    reference: Callable[[Config, Mapping[str, Any]], dict[str, Any]]
    in_place: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()
    tolerance: Callable[[Config], Any] | None = None
    special_values: tuple[str, ...] = ()
    deterministic: bool = True
    passes: Callable[[Config, Mapping[str, Any]], Any] | None = None

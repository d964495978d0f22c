"""Ranks that are verified together: one call launches all of them, each with its own arguments and the exchanged ones.

On a GPU each rank has a stream of it, so the blocks of all ranks must run there at once. An emulated kernel has a GPU
for each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from precast.kernels.authoring.composition import Ranks
from precast.kernels.authoring.declare import Declaration, Problem
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.values import replace as replaced
from precast.measure.checks.passing import Passing
from precast.measure.launching.cases import bound

_SEEDS = 7919  # between the seeds of two ranks: authors add a little to theirs


def of_rank(name: str, rank: int) -> str:
    """An argument of one rank among those of all.

    >>> of_rank("x", 3)
    'x of rank 3'
    """
    return f"{name} of rank {rank}"


@dataclass(frozen=True, slots=True)
class Together:
    """What launches all ranks, from arguments that are named as ``of_rank`` does."""

    launch: Callable[..., Any]
    ranks: Ranks
    config: Config
    written: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return self.ranks.count(self.config)

    @property
    def signature(self) -> Signature | None:
        """The arguments of all ranks, as each is declared."""
        signature = getattr(self.launch, "signature", None)
        if not isinstance(signature, Signature):
            return None
        arguments = [replaced(a, name=of_rank(a.name, r)) for r in range(self.count) for a in signature.passed]
        return Signature(arguments=tuple(arguments), symbols=signature.symbols)

    def __call__(self, **values: Any) -> None:
        """Launch all ranks."""
        self.bind(values)()

    def under(self, schedule: Any) -> Together:
        """The same with an emulated kernel in another order."""
        return replace(self, launch=self.launch.under(schedule))  # type: ignore[attr-defined]

    def bind(self, values: Mapping[str, Any]) -> Callable[[], Any]:
        """The call with what ``inputs`` made for all ranks."""
        owned = owned_by_each(values, self.count)
        calls = [{**mine, **self.ranks.exchanged(self.config, rank, owned)} for rank, mine in enumerate(owned)]
        together = getattr(self.launch, "together", None)
        if together is not None:
            return functools.partial(together, calls, values, self.written)
        return functools.partial(self._on_streams, [bound(self.launch, call) for call in calls], values)

    def _on_streams(self, calls: Sequence[Callable[[], Any]], values: Mapping[str, Any]) -> None:
        """Launch each rank on a stream of its own, behind the current one, which then waits for all of them."""
        import torch

        if not any(getattr(value, "is_cuda", False) for value in values.values()):
            for call in calls:
                call()
            return
        current = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in calls]
        for stream in streams:  # no rank begins before all may: they wait for each other
            stream.wait_stream(current)
        for stream, call in zip(streams, calls, strict=True):
            with torch.cuda.stream(stream):
                call()
        for stream in streams:
            current.wait_stream(stream)


def together(
    launch: Callable[..., Any], declaration: Declaration, config: Config
) -> tuple[Callable[..., Any], Declaration]:
    """The launch of all ranks as one, and its declaration; both as they are where there is but one rank.

    What the kernel is passed is made of the tensors first, where its author declares that.
    """
    ranks = declaration.ranks
    if declaration.passes is not None:
        written = frozenset({*declaration.outputs, *declaration.workspace})
        return Passing(launch, declaration.passes, config, written), declaration
    if ranks is None:
        return launch, declaration
    count = ranks.count(config)

    def all_of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(of_rank(name, rank) for rank in range(count) for name in names)

    def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        assert declaration.inputs
        owned = [declaration.inputs(config, problem, device=device, seed=seed + r * _SEEDS) for r in range(count)]
        return {of_rank(name, rank): value for rank, arguments in enumerate(owned) for name, value in arguments.items()}

    def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        assert declaration.reference
        owned = owned_by_each(values, count)
        results = declaration.reference(config, {name: [arguments[name] for arguments in owned] for name in owned[0]})
        return {of_rank(name, rank): results[name][rank] for rank in range(count) for name in results}

    flat = replace(
        declaration,
        ranks=None,
        inputs=inputs,
        reference=reference,
        outputs=all_of(declaration.outputs),
        in_place=all_of(declaration.in_place),
        workspace=all_of(declaration.workspace),
    )
    return Together(launch, ranks, config, frozenset({*flat.outputs, *flat.workspace})), flat


def owned_by_each(values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The arguments of each rank by their own names.

    >>> owned_by_each({"x of rank 0": 1, "x of rank 1": 2}, 2)
    [{'x': 1}, {'x': 2}]
    """
    ends = [of_rank("", rank) for rank in range(count)]
    return [{n.removesuffix(end): v for n, v in values.items() if n.endswith(end)} for end in ends]

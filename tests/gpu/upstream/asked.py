"""What a library's compile call asks for, as an op and its config; or why no op supports it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

Answer = Callable[[Callable[[], "Asked"]], Callable[..., Any]]
"""Replaces compiling: it calls the function that says what is asked for, and returns what to launch, or raises."""


class NotApplicable(pytest.skip.Exception):  # type: ignore[name-defined]
    """The test asks for what no op, or no cache, holds: it is skipped, with this reason."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An op, its meaning keys, and its tuned keys, all of them, so that no other variant is as good."""

    op: str
    config: Mapping[str, Any]
    tuned: Mapping[str, Any]

    def __str__(self) -> str:
        given = {k: v for k, v in {**self.config, **self.tuned}.items() if v is not None}
        return f"{self.op} {json.dumps(given)}"


def refuse(**reasons: bool) -> None:
    """Raise for the first reason that holds; the names are the reasons, with underscores for blanks.

    >>> refuse(a_weight_for_each_head=False)
    """
    for reason, holds in reasons.items():
        if holds:
            raise NotApplicable(f"no op of precast's has {reason.replace('_', ' ')}")


def unsupported(asked: Asked, target: str) -> str | None:
    """Why the op's author refuses it, or None."""
    from precast.kernels.authoring.declare import declaration_of
    from precast.kernels.authoring.registry import find, load
    from precast.loader.format.config import complete
    from precast.loader.format.target import Target

    declared = declaration_of(load(find(asked.op)))
    config = complete(declared.keys, {**asked.config, **asked.tuned}, op=asked.op)
    return declared.supports(config, Target.parse(target)) if declared.supports else None

"""Explanations: the decision of a request that is written as words on a command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from precast.loader.api import explain
from precast.loader.command_line.config_words import request_of, sizes_of
from precast.loader.resolve.resolution import Resolution
from precast.loader.session import Session, current_session, use

VERIFIED: dict[str, Literal["emulated"] | bool] = {"": False, "gpu": True, "emulated": "emulated"}
"""What ``--verified`` takes, with what ``loader.get`` takes for it."""


def explained(
    op: str,
    config: Iterable[str] = (),
    *,
    device: int | None = None,
    target: str | None = None,
    problem: Iterable[str] = (),
    verified: str = "",
    cache: str = "",
) -> Resolution:
    """The decision that ``loader.get`` would make; nothing is loaded.

    Parameters
    ----------
    op
        The op.
    config
        ``KEY=VALUE`` each; values are read in the types of the op's keys.
    device, target
        As for ``loader.explain``.
    problem
        ``NAME=SIZE`` each.
    verified
        A key of ``VERIFIED``.
    cache
        The folder of a cache that this process searches from now on, before those that are installed.
    """
    if cache:
        use(Session(search=cache))
    sources, _ = current_session().sources(op)
    values = request_of(config, [key for source in sources for key in source.op.keys])
    sizes = sizes_of(problem) or None
    return explain(op, values, device=device, target=target, problem=sizes, verified=VERIFIED[verified])


def to_json(decision: Resolution) -> dict[str, Any]:
    """A decision's values for programs."""
    return {
        "request": str(decision.request),
        "chosen": decision.chosen.artifact.key if decision.chosen else None,
        "accepted": [accepted.candidate.artifact.key for accepted in decision.accepted],
        "rejected": [{"key": r.candidate.artifact.key, "reasons": list(r.reasons)} for r in decision.rejected],
        "notes": list(decision.notes),
    }

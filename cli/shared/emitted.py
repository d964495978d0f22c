"""The option ``--emit``: the kinds of artifact, in place of those that manifests name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

_KINDS = ("object", "cubin")

Emit = Annotated[
    list[str] | None,
    typer.Option("--emit", help="Make object or cubin, whatever the manifests say; may be repeated.", metavar="KIND"),
]


def emitted(kinds: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds that were asked for, checked.

    >>> emitted(["cubin"])
    ('cubin',)
    """
    for kind in kinds or ():
        if kind not in _KINDS:
            raise typer.BadParameter(f"--emit {kind}: write {' or '.join(_KINDS)}")
    return tuple(kinds or ())

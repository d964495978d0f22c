"""The option ``--retarget``: what manifests list for one target, planned for another."""

from __future__ import annotations

from typing import Annotated

import typer

Retarget = Annotated[
    list[str] | None,
    typer.Option(
        "--retarget",
        help="Plan what is listed for one target for another, such as sm_100a=sm_103a; may be repeated.",
        metavar="LISTED=WANTED",
    ),
]

"""The option ``--pass-env``: variables of the caller that the compilation sees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

PassEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--pass-env",
        help="A variable that compilations see, as if every entry's env: set it; may be repeated.",
        metavar="NAME",
    ),
]


def passed(names: Sequence[str] | None) -> dict[str, str]:
    """The variables of these names, as they are set for this command."""
    from precast.build.ipc.environment import passed_variables

    return passed_variables(names or (), os.environ)

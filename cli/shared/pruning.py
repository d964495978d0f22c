"""The options of commands that remove what has not been used for long."""

from __future__ import annotations

from typing import Annotated

import typer

Prune = Annotated[bool, typer.Option("--prune", help="Remove what --older-than and --keep select.")]
OlderThan = Annotated[
    str, typer.Option("--older-than", help="Select what no build has used for so long, such as 30d.", metavar="AGE")
]
Keep = Annotated[
    str, typer.Option("--keep", help="Select the longest unused beyond so many bytes, such as 20G.", metavar="SIZE")
]

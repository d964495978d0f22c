"""Arguments and options that select what is measured, each declared once for several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Manifests = Annotated[list[Path], Argument(help="The manifests.", metavar="MANIFEST...")]
Op = Annotated[list[str] | None, Option("--op", help="Only this op; may be repeated.", metavar="OP")]
Where = Annotated[
    list[str] | None,
    Option(
        "--where", help="Only variants with this value, such as dtype=bfloat16; may be repeated.", metavar="KEY=VALUE"
    ),
]
KeyPrefix = Annotated[
    str, Option("--key", help="Only the artifact whose key starts with this.", metavar="KEY", show_default=False)
]
Problems = Annotated[
    list[str] | None,
    Option("--problem", help="Only this problem, such as m=4096,n=8192; may be repeated.", metavar="SIZES"),
]

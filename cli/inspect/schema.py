"""Print the JSON Schema of a manifest or of a cache's index.

With the manifest's schema, an editor completes keys and marks mistakes while you type.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from precast.build.schemas.documents import schema_of
from precast.cli.shared.output import as_json

EXAMPLES = ("precast schema manifest > manifest.schema.json",)


def command(
    document: Annotated[
        Literal["manifest", "index", "op"], typer.Argument(help="A manifest, index.json, or ops/<op>.json.")
    ],
) -> None:
    print(as_json(schema_of(document)))

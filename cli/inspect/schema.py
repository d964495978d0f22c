"""Print the JSON Schema of a manifest, or of a cache's index."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from precast.build.schemas.cache_schema import schema_of
from precast.cli.shared.output import as_json


class Document(str, Enum):
    """The files that have a schema."""

    MANIFEST = "manifest"
    INDEX = "index"
    OP = "op"


def command(
    document: Annotated[Document, typer.Argument(help="The file: a manifest, index.json, or ops/<op>.json.")],
) -> None:
    """Print the JSON Schema of a manifest, or of a cache's index.

    With the manifest's schema, an editor completes keys and marks mistakes while you type.
    """
    print(as_json(schema_of(document.value)))

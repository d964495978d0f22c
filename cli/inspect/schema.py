"""Print the JSON Schema of a manifest, or of a cache's index."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from precast.build.schema import schema_of
from precast.cli.shared.output import as_json


class What(str, Enum):
    """What has a schema."""

    MANIFEST = "manifest"
    INDEX = "index"
    OP = "op"


def command(what: Annotated[What, typer.Argument(help="The file: a manifest, index.json, or ops/<op>.json.")]) -> None:
    """Print the JSON Schema of a manifest, or of a cache's index.

    Point an editor at the manifest's, and it completes keys and marks mistakes while you type.
    """
    print(as_json(schema_of(what.value)))

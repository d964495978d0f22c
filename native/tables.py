"""The table that libprecast shares with the loader, as C: the numbers of a device's facts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from precast.loader.machine.facts import ATTRIBUTES


def tables() -> dict[str, str]:
    """The generated headers, by their names.

    >>> '{"multiprocessor_count", 16}' in tables()["attributes.h"]
    True
    """
    return {"attributes.h": _array("{ const char *name; int number; } ATTRIBUTES", ATTRIBUTES.items())}


def _array(declaration: str, rows: Iterable[tuple[str, str | int]]) -> str:
    lines = [f"    {{{', '.join(json.dumps(value) for value in row)}}},\n" for row in rows]
    return f"/* Made of the loader's tables. */\nstatic const struct {declaration}[] = {{\n{''.join(lines)}}};\n"

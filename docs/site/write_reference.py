"""Write the pages of docs/reference that come from code and the published JSON Schemas: ``make reference``.

A test fails while one is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import cache_schema
import cli_page
import python_page
import schema_pages

from precast.build.schemas.documents import NAMES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
SCHEMAS = ROOT / "build" / "schemas"
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page.page,
    "manifest-schema.md": schema_pages.manifest_page,
    "cache-schema.md": schema_pages.cache_page,
    "python.md": python_page.page,
}


def files() -> Iterator[tuple[Path, str]]:
    """The path and the text of every file."""
    for name in NAMES:
        yield SCHEMAS / f"{name}.json", f"{json.dumps(cache_schema.schema_of(name), sort_keys=True)}\n"
    for name, page in PAGES.items():
        yield FOLDER / name, page()
    for name, text in python_page.pages().items():
        yield FOLDER / python_page.FOLDER / name, text


def main() -> None:
    """Write every file."""
    for path, text in files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

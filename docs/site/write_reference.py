"""Write four pages of docs/reference from the code: ``make reference``. A test fails while one is out of date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cli_page
import python_page
import schema_pages

FOLDER = Path(__file__).resolve().parents[1] / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page.page,
    "manifest-schema.md": schema_pages.manifest_page,
    "cache-schema.md": schema_pages.cache_page,
    "python.md": python_page.page,
}


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"wrote {(FOLDER / name).relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()

"""Pictures of the pages that a newcomer sees first: README.md as a code host shows it, the site, the report.

    PYTHONPATH=. python benchmarks/looks.py SITE [--pictures DIR] [--sheets DIR]

SITE is what ``make docs`` builds, .work/site/html. Each page is taken light and dark, wide and 400 pixels wide, in
Chromium. ``--pictures`` keeps each whole page; ``--sheets`` puts the beginnings of all into a picture for each theme.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import report
from markdown_it import MarkdownIt

from precast.build.cache.contents import CacheContents
from precast.build.web_report.page import page
from precast.build.web_report.page_data import page_data
from tests.helpers.web import browser

ROOT = Path(__file__).resolve().parents[1]
SITE_PAGES = ("docs/README", "docs/tutorial", "docs/performance")
WIDTHS, THEMES = (1280, 400), ("light", "dark")
HEIGHT, LARGEST, TALL, SMALLER = 960, 6000, 900, 0.65
CODE_HOST = """
body{margin:0;color-scheme:light dark;background:light-dark(#fff,#0d1117);color:light-dark(#1f2328,#f0f6fc);
font:16px/1.5 system-ui,sans-serif}main{max-width:916px;margin:0 auto;padding:2rem}img{max-width:100%}
pre{background:light-dark(#f6f8fa,#151b23);padding:1rem;overflow:auto;border-radius:6px;font-size:85%;line-height:1.45}
h1,h2{border-bottom:1px solid light-dark(#d1d9e0,#3d444d);padding-bottom:.3em}a{color:light-dark(#0969da,#4493f8)}
code{font-size:85%}pre code{font-size:100%}@media(max-width:767px){main{padding:1rem}}
"""
"""Much as a code host shows a page: its column, and what does not fit into that."""
SHEET = (
    "body{{margin:0;padding:16px;background:{paper};display:grid;grid-template-columns:repeat({count},400px);gap:16px}}"
)
SHEET += "div{{border:1px solid #8886;border-radius:6px;overflow:hidden}}img{{display:block;width:400px}}"
SHEET += ".wide{{height:300px}}.narrow{{height:{tall}px}}"


def pages(site: Path, scratch: Path) -> dict[str, str]:
    """The addresses of the pages by name."""
    readme = scratch / "readme.html"
    text = MarkdownIt("commonmark", {"html": True}).enable("table").render((ROOT / "README.md").read_text())
    head = f'<!doctype html><meta charset="utf-8"><base href="{ROOT.as_uri()}/"><style>{CODE_HOST}</style>'
    readme.write_text(f"{head}<main>{text}</main>")
    found = {"readme": readme.as_uri()}
    found |= {f"site-{Path(name).name.lower()}": (site / f"{name}.html").as_uri() for name in SITE_PAGES}
    made = {name: scratch / name for name in ("many", "older", "one")}
    for folder in made.values():
        folder.mkdir()
    many = CacheContents.open(report.cache(made["many"], 1000))
    older = CacheContents.open(report.cache(made["older"], 992))
    one = CacheContents.open(report.cache(made["one"], 24, ("rmsnorm",)))
    for name, contents, against in (("one-op", one, None), ("1000-variants", many, None), ("two-caches", many, older)):
        path = scratch / f"{name}.html"
        path.write_text(page(page_data(contents, against=against, seconds=report.MADE)))
        found[f"report-{name}"] = path.as_uri()
    return found


def taken(driver: Any, address: str, theme: str, width: int, height: int = HEIGHT, *, small: bool = False) -> bytes:
    """A page from its top to its end, or as far as one looks; ``small`` in fewer bytes, for the repository."""
    browser.theme(driver, theme)
    with browser.screen(driver, width, height):
        driver.get(address)
        long = int(driver.execute_script("return document.documentElement.scrollHeight"))
    high = min(max(long, height), LARGEST)
    given: dict[str, Any] = {"format": "png"}
    if small:
        clip = {"x": 0, "y": 0, "width": width, "height": high, "scale": SMALLER}
        given = {"format": "webp", "quality": 70, "clip": clip}
    with browser.screen(driver, width, high):
        driver.execute_script("scrollTo(0, 0)")
        return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", given)["data"])


def sheet(driver: Any, theme: str, pictures: Mapping[str, Path], path: Path) -> None:
    """The beginnings of all pages: wide ones above, narrow ones below."""
    count = len(pictures) // len(WIDTHS)
    rows = [
        f'<div class="{kind}"><img alt="" src="{picture.as_uri()}"></div>'
        for kind in ("wide", "narrow") for name, picture in pictures.items() if name.endswith(kind)
    ]  # fmt: skip
    style = SHEET.format(paper="#d8dee4" if theme == "light" else "#2d343d", count=count, tall=TALL)
    html = path.with_suffix(".html")
    html.write_text(f"<!doctype html><style>{style}</style>{''.join(rows)}")
    path.write_bytes(taken(driver, html.as_uri(), theme, 16 + 416 * count, 300 + TALL + 52, small=True))
    html.unlink()


def main() -> None:
    """Take them, and print how wide each page is on a narrow screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--sheets", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="precast-looks-") as name, browser.browser() as driver:
        folder = given.pictures or Path(name, "pictures")
        folder.mkdir(parents=True, exist_ok=True)
        found = pages(given.site.resolve(), Path(name))
        for theme in THEMES:
            pictures = {}
            for title, address in found.items():
                for width, kind in zip(WIDTHS, ("wide", "narrow"), strict=True):
                    path = folder.resolve() / f"{title}-{theme}-{width}.png"
                    path.write_bytes(taken(driver, address, theme, width))
                    pictures[f"{title} {kind}"] = path
            if given.sheets:
                sheet(driver, theme, pictures, given.sheets.resolve() / f"looks-{theme}.webp")
        print(f"{len(found)} pages, each {' and '.join(THEMES)}, {' and '.join(map(str, WIDTHS))} pixels wide")


if __name__ == "__main__":
    main()

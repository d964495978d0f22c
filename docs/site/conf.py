"""The site of the documentation, for Sphinx: ``make docs`` builds it.

Sphinx reads the same Markdown that people read on a code host, so the pages hold no directives. The navigation is that
of docs/README.md: each heading of the second level is a part, and each link to a page below it is an entry.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from page_html import folding, prompted

project = "precast"
html_title = "precast"
root_doc = "docs/README"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [
    ".*",
    "src",
    "build",
    "emulator",
    "measure",
    "native",
    "publish",
    "loader",
    "kernels",
    "manifests",
    "tests",
    "benchmarks",
    "examples",
]

myst_heading_anchors = 4  # as code hosts make them, so that links to sections work in both
html_theme = "furo"
html_theme_options = {"light_logo": "mark.svg", "dark_logo": "mark.svg"}
html_favicon = "style/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # a browser lets no page of a local folder read another
html_static_path = ["style"]
html_css_files = ["precast.css"]
html_js_files = [("precast.js", {"defer": "defer"})]
smartquotes = False  # an option has two hyphens, also where a heading or a table names it
pygments_style = "default"
pygments_dark_style = "github-dark"

BELOW = {
    "docs/reference/python": "python/loader.*\npython/attach.*\npython/kernels.*",
    "docs/reference/emulation": "../upstream/*",
}
"""Pages whose links lead to all pages of a folder: the navigation has these below them."""
_PART = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"\[([^\]]+)\]\(([^)#]+)\.md\)")


def navigation(text: str) -> str:
    """The links of each part of a page as directives that nobody sees.

    >>> print(navigation("# Home\\n\\n## Guides\\n\\n[Calling](calling.md) explains a call.\\n"))
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: Guides
    <BLANKLINE>
    Calling <calling>
    ```
    <BLANKLINE>
    """
    made = ""
    for name, body in _PART.findall(text):
        if pages := _PAGE.findall(body):
            lines = "\n".join(f"{' '.join(title.split())} <{page}>" for title, page in pages)
            made += f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n\n{lines}\n```\n"
    return made


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """Before the first page is read: its links become the navigation."""
    if name == root_doc:
        source[0] += navigation(source[0])
    if name in BELOW:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{BELOW[name]}\n```\n"


def change_html(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Before a page is written: what its Markdown cannot say."""
    context["furo_navigation_tree"] = folding(context.get("furo_navigation_tree", ""))
    context["body"] = prompted(context.get("body", ""))


def write_entrance(app: Any, error: Exception | None) -> None:
    """``index.html``, where web servers look first, leads to the first page."""
    if error is None and app.builder.format == "html":
        page = html.escape(app.builder.get_target_uri(root_doc))
        text = f'<!doctype html>\n<meta charset="utf-8">\n<meta http-equiv="refresh" content="0; url={page}">\n'
        text += f'<title>{project}</title>\n<a href="{page}">{project}</a>\n'
        Path(app.outdir, "index.html").write_text(text, encoding="utf-8")


def copy_pictures(app: Any, error: Exception | None) -> None:
    """Pictures with a narrow form are plain HTML, whose addresses Sphinx leaves as they are."""
    pictures = Path(app.srcdir, "docs", "images")
    if error is None and app.builder.format == "html" and pictures.is_dir():
        shutil.copytree(pictures, Path(app.outdir, "docs", "images"), dirs_exist_ok=True)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("html-page-context", change_html, priority=900)  # after the theme
    app.connect("build-finished", write_entrance)
    app.connect("build-finished", copy_pictures)

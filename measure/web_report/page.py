"""The page: one HTML file that holds its data, its style and its script, and loads nothing."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from precast.measure.web_report.page_data import PageData

_HERE = Path(__file__).parent
_SCRIPTS = ("table.js", "plots.js", "changes.js", "page.js")
_PLACE = re.compile(r"@(TITLE|STYLE|DATA|SCRIPT)@")


def page(data: PageData) -> str:
    """The whole page. The same cache gives the same bytes.

    >>> from precast.measure.web_report.page_data import PageData
    >>> text = page(PageData(name="a</script>", digest="0", toolchain={}, stored=0, size=0, docs={}, variants=()))
    >>> text.count("</script>"), "<title>a&lt;/script&gt;: precast report</title>" in text
    (2, True)
    """
    text = json.dumps(data.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    parts = {
        "TITLE": f"{escape(data.name)}: precast report",
        "STYLE": (_HERE / "page.css").read_text(encoding="utf-8"),
        "SCRIPT": "".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "DATA": text.replace("<", "\\u003c"),  # no text of a cache ends the element that holds it
    }
    return _PLACE.sub(lambda match: parts[match[1]], (_HERE / "page.html").read_text(encoding="utf-8"))

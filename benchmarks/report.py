"""How large the page of a cache is, and how long a browser takes to open and to filter it.

    PYTHONPATH=. python benchmarks/report.py [ARTIFACTS] [--pictures DIR]

It makes a cache of as many artifacts, with measurements, writes its page, and opens that in Chromium.
"""

from __future__ import annotations

import argparse
import base64
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precast.build.cache.contents import CacheContents
from precast.loader.contract.format.artifact import Resources
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.resolve.cache import Cache
from precast.measure.annotate import Measurements, add_evidence, tune
from precast.measure.web_report.page import page
from precast.measure.web_report.page_data import page_data
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.web import browser

OPS = ("attention", "gemm", "layernorm", "moe_permute", "quantize_fp8", "rmsnorm", "scale", "softmax")
KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="hidden", type="int"),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
)
WIDTH, WORDS = 1000, "rmsnorm bfloat16 sm_100a"
"""Of a picture: its width, and what is typed into the search."""
MADE = 1767225600  # seconds since 1970, so that two runs give the same page
OPENED = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd - t.startTime"
FILTERED = """
const search = document.getElementById('search'), begun = performance.now();
search.value = arguments[0];
search.dispatchEvent(new Event('input'));
document.body.offsetHeight;
return performance.now() - begun
"""


def cache(folder: Path, count: int, ops: Sequence[str] = OPS) -> Path:
    """A cache of some ops, half of it verified, a part of it measured."""
    native = Native(folder / "native")
    native.folder.mkdir()
    writer = CacheWriter(name="large")
    writer.runtime(*native.runtime())
    code, evidence, tables = native.entry(), {}, {}
    for op in ops:
        rows = []
        for n in range(count // len(ops)):
            config = {
                "dtype": ("bfloat16", "float16")[n % 2],
                "hidden": 1024 * (n // 8 + 1),
                "threads": 64 << n // 2 % 4,
            }
            blob = writer.keep(code + op.encode() + bytes(n * 37 % 900) + n.to_bytes(4, "little"))
            used = Resources(kernel=op, registers=32 + n % 200, shared=n % 7 * 1024, stack=0, local=n % 97 // 96)
            rows.append(artifact(blob, config, ("sm_90a", "sm_100a")[n % 5 // 4], resources=(used,)))
        writer.op(op, rows, keys=KEYS)
        where = {"check": "verify", "gpu": "NVIDIA H200", "date": "2026-01-01T00:00:00Z", "failed": []}
        evidence[op] = {row.key: where for row in rows[::2]}
        tables[op] = tuple(
            Measured(
                gpu="NVIDIA H200",
                capability=Capability(9, 0),
                problem={"rows": 1 << size},
                times={row.key: 3 + (1 << size) / (900 + place * 7 % 100) for place, row in enumerate(rows[:64])},
            )
            for size in range(14)
        )
    path = writer.write(folder / "cache")
    add_evidence(Cache(path), evidence)
    tune(Cache(path), [Measurements(tables)])
    return path


def picture(driver: Any, theme: str, path: Path) -> None:
    """The page down to the boxes, with the variants of one op for one target, in one theme."""
    browser.theme(driver, theme)
    driver.refresh()
    driver.execute_script(FILTERED, WORDS)
    bottom = driver.execute_script("return document.getElementById('treemap').getBoundingClientRect().bottom")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": bottom + 20, "scale": 1}
    with browser.screen(driver, WIDTH, int(bottom) + 100):
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifacts", nargs="?", type=int, default=1000)
    parser.add_argument("--pictures", type=Path, help="write report-light.png and report-dark.png into this folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="precast-report-") as name, browser.browser(WIDTH, 1100) as driver:
        path = Path(name, "report.html")
        found = page_data(CacheContents.open(cache(Path(name), given.artifacts)), seconds=MADE)
        path.write_text(page(found))
        opened = []
        for _ in range(5):
            driver.get(path.as_uri())
            opened.append(driver.execute_script(OPENED))
        words = ("r", "rm", "rms", "rmsnorm", "rmsnorm bfloat16", "zzz", "")
        filtered = [driver.execute_script(FILTERED, text) for text in words]
        print(f"{len(found.variants)} artifacts: {path.stat().st_size / 1e6:.2f} MB")
        print(f"opened in {statistics.median(opened):.0f} ms (of 5, {min(opened):.0f} to {max(opened):.0f})")
        print(f"filtered in {statistics.median(filtered):.0f} ms (of {len(words)}, at most {max(filtered):.0f})")
        if given.pictures:
            for theme in ("light", "dark"):
                picture(driver, theme, given.pictures / f"report-{theme}.png")


if __name__ == "__main__":
    main()

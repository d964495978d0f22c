"""Reproduces the reports of docs/upstream from their files: ``python benchmarks/upstream_reports.py [PAGE ...]``.

Each report's commands are run in the checkout, one report after the other, and what ``precast verify --emulate`` prints
is compared with what the report shows, but for addresses and spaces. The libraries must be installed: the environment
of ``make test`` has them. Exit status 1 if a report no longer holds, as when a library has mended its fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def shows(page: str, printed: str) -> bool:
    """Whether a text of a page, where ``...`` stands for anything, is among what was printed.

    >>> shows("wrong: mla(...): a write at 0x560", "wrong: mla(dtype=a, b=1): a write\\nat 0x771; correct the kernel")
    True
    """
    return re.search(re.escape(plain(page)).replace(r"\.\.\.", ".*?"), plain(printed)) is not None


def plain(text: str) -> str:
    """A text without what differs from run to run: addresses, spaces, and where site-packages are."""
    return re.sub(r"\S*(?=site-packages/)", "", re.sub(r"0x[0-9a-f]+", "ADDRESS", " ".join(text.split())))


def reproduce(page: Path, output: Path) -> str:
    """Run a report's commands; the reason why it does not hold, or no text."""
    found = re.search(r"```sh\n(.*?)```\s*```text\n(.*?)```", page.read_text(), re.DOTALL)
    if found is None:
        return "it has no commands followed by what they print"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PRECAST_STORE": str(output.with_name("store"))}
    *before, last = [line.replace(".work/report", str(output)) for line in found[1].splitlines()]
    for line in (*before, last):
        done = subprocess.run(line, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        printed = done.stdout + done.stderr
        if line in before and done.returncode:
            return f"{line}\n{printed[-2000:]}"
    return "" if shows(found[2], printed) else f"{last}\nprinted, with status {done.returncode}:\n{printed[-3000:]}"


def main() -> None:
    """Print a line for each report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="some reports; by default, all of docs/upstream")
    pages = parser.parse_args().pages or sorted((ROOT / "docs" / "upstream").glob("fl*.md"))
    failed = 0
    for page in pages:
        folder = Path(tempfile.mkdtemp())
        begun = time.monotonic()
        try:
            reason = reproduce(page.resolve(), folder / "report")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        failed += bool(reason)
        print(f"{page.name}: {reason or 'reproduced'} ({time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""The site of the documentation, built as ``make docs`` does."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from tests.helpers.source_tree import ROOT

SITE = ROOT / "docs" / "site"
MISSING = "sphinx is not installed: it is in the extra docs"


def installed() -> bool:
    """Whether a test may build the site."""
    return importlib.util.find_spec("sphinx") is not None


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages of a folder; warnings are errors."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(SITE)]
    command += ["-d", f"{out}-pages", str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

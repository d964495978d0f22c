"""The site is built once for all tests of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.documentation.site import build
from tests.helpers.source_tree import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return out

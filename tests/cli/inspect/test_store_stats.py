"""``precast store --stats`` after builds as a user runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.builds import manifest, module, precast

pytestmark = pytest.mark.usefixtures("without_torch")


def stats(store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = precast(store, "store", "--stats", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done


@pytest.mark.slow
def test_what_builds_found_and_what_that_saved(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert "no build is in its log yet" in stats(store).stdout
    module(tmp_path, "mine", "def add(n: int):\n    return compile_add(n)\n")
    for values in ([1, 2], [1, 2], [1, 2, 3]):  # the second is up to date, the third has two of its three
        done = precast(store, "build", manifest(tmp_path, {"mine:add": values}), "-o", tmp_path / "cache", "-j", 1)
        assert done.returncode == 0, done.stderr
    text = stats(store).stdout
    assert "3 builds: 4 of 7 variants found, " in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("user.add"))
    assert row[1:3] == ["4", "3"]

    read = json.loads(stats(store, "--json").stdout)["stats"]
    usage = read["ops"]["user.add"]
    assert (read["builds"], usage["hits"], usage["misses"]) == (3, 4, 3)
    assert 0 < usage["spent"] < 600 and 0 < usage["saved"] < 600

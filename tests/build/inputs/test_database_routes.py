"""Databases of SQLite: what is in the log beside the file (WAL) counts, and a log that holds nothing does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Step

READ = HERE + "import os, sqlite3, subprocess, sys\nF = here / 'tiles.db'\nc = sqlite3.connect(F)\n"
READ += "VALUE = c.execute('select x from t').fetchone()[0]\n"
READING = {
    "left open": READ,
    "closed": READ + "c.close()\n",
    "only to read": READ.replace("connect(F)", "connect(f'file:{F}?mode=ro', uri=True)"),
    "by another process": HERE + "import subprocess, sys\ncode = 'import sqlite3, sys; "
    'print(sqlite3.connect(sys.argv[1]).execute("select x from t").fetchone()[0])\'\n'
    "VALUE = int(subprocess.check_output([sys.executable, '-c', code, here / 'tiles.db']))\n",
}
WRITE = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("pragma journal_mode=wal")
connection.executescript("create table if not exists t(x); delete from t; insert into t values (%d)" % int(sys.argv[2]))
connection.commit()
if sys.argv[3] == "leave":
    os._exit(0)
connection.close()
"""


def written(value: int, end: str) -> Step:
    """A database with this value. ``leave``: it is in the log alone, as while its writer runs."""

    def make(project: ObservedProject) -> None:
        command = [sys.executable, "-c", WRITE, str(project.search / "tiles.db"), str(value), end]
        subprocess.run(command, check=True)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("before", ["leave", "close"])
def test_the_inputs_change_with_the_log(name: str, before: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": READING[name]})
    written(1, before)(project)
    inputs = project.inputs()
    assert project.value == 1 and project.changed(inputs) == ()
    again = project.inputs()
    assert again.answers == inputs.answers
    written(2, "leave")(project)
    assert "journal:search/tiles.db-wal" in project.changed(inputs)
    project.observe()
    assert project.value == 2

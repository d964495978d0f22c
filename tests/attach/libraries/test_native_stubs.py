"""Stand-ins for native modules: only for those that are not here, or cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import run

FILES = {
    "minilib/real.py": "def sort(): return 'sorted'\n",
    "minilib/broken.py": "raise ImportError('libcuda.so.1: cannot open shared object file')\n",
    "minilib/half/__init__.py": "from minilib.half import inner\nraise OSError('no driver')\n",
    "minilib/half/inner.py": "",
    "minilib/filled.py": "from minilib._C import names\ntable = dict(names)\n",
    "minilib/faulty.py": "def f(:\n",
}
BEGIN = """
from precast.attach.libraries.native_stubs import empty_where_absent
empty_where_absent(["minilib._C", "minilib.real", "minilib.broken", "minilib.half", "minilib.filled", "minilib.faulty"])
"""


@pytest.mark.parametrize(
    "code",
    [
        "import minilib._C; assert minilib._C.sort(1, 2) is None and minilib._C.Kind.MEMBER is not None",
        "from minilib._C.below import anything; assert anything(1, 2) is None",
        "import minilib.real; assert minilib.real.sort() == 'sorted' and minilib.real.__file__",
        "import minilib.broken; assert minilib.broken.sort(1) is None",
        "import minilib.filled; assert minilib.filled.table.anything(1, 2) is None",
        "import minilib.half; from minilib.half.more import jit\n"
        "@jit\ndef one(): return 1\n@jit(fast=True)\ndef two(): return 2\n"
        "assert (one(), two()) == (1, 2)",
        "import importlib.util; assert importlib.util.find_spec('minilib.other') is None",
    ],
)
def test_it_stands_in_where_the_real_one_cannot(code: str, tmp_path: Path) -> None:
    done = run("-c", BEGIN + code, path=[write_library(tmp_path / "site", FILES)])
    assert done.returncode == 0, done.stderr


def test_a_fault_of_the_module_itself_stays_one(tmp_path: Path) -> None:
    done = run("-c", BEGIN + "import minilib.faulty", path=[write_library(tmp_path / "site", FILES)])
    assert "SyntaxError" in done.stderr

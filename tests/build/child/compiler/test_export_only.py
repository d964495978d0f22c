"""A worker makes no code that it could run itself: the compiler's own hook for that is still there, and is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import manifest, module, precast

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

CHECKING = """
def checking(n: int):
    compiled = compile_add(n)
    assert compiled.engine is None, compiled.engine
    return compiled
"""


def test_what_a_worker_compiles_has_no_code_for_the_worker(tmp_path: Path) -> None:
    module(tmp_path, "checking", CHECKING)
    done = precast(tmp_path / "s", "build", manifest(tmp_path, {"checking:checking": [1]}), "-o", tmp_path / "cache")
    assert done.returncode == 0, done.stderr

"""A worker prepares an attached library before it imports any of its modules: the platform decides kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.attach.mini_library import write_library
from tests.helpers.builds import HEAD, precast

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

KERNEL = f"""
{HEAD}
import functools

from platy import platform


@functools.cache
def compiled(n):
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=4),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    if platform.KIND != "cuda":
        raise RuntimeError(f"the platform is {{platform.KIND}}")
    return cute.compile(add_host, x, float(n), stream, options="--enable-tvm-ffi")
"""
LIBRARY = {
    **{f"platy/kernels{number}.py": KERNEL for number in range(3)},
    "platy/platform.py": """
import os
from platy import ask

KIND = ask.kind()
VARIABLE = os.environ.get("PLATY_CACHE", "on")
""",
    "platy/ask.py": "def kind():\n    return 'none'\n",
    "platy_seams.py": """
from precast.attach import Functions, Library
from precast.loader.contract.import_hook import after_import


def without_gpu():
    def find(module):
        module.kind = lambda: "cuda"

    after_import({"platy.ask": find})


LIBRARY = Library(
    name="platy",
    distribution="platy",
    package="platy",
    seams=tuple(Functions(f"platy.kernels{number}", ("compiled",)) for number in range(3)),
    environment={"PLATY_CACHE": "off"},
    without_gpu=without_gpu,
)
""",
}
PROGRAM = (
    "from platy import kernels0, kernels1, kernels2\nfor one in (kernels0, kernels1, kernels2):\n    one.compiled(3)\n"
)


def test_also_for_the_modules_that_it_imports_for_several_kernels(tmp_path: Path) -> None:
    site = write_library(tmp_path / "site-packages", LIBRARY, package="platy", distribution="platy")
    (site / "platy-1.0.dist-info" / "entry_points.txt").write_text("[precast.libraries]\nplaty = platy_seams\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    recorded = ("-t", "sm_90a", "--library", "platy", "-o", tmp_path / "platy.yaml", "--", "python")
    for words in (
        ("record", *recorded, tmp_path / "program.py"),
        ("build", tmp_path / "platy.yaml", "-o", tmp_path / "cache", "-j", "1"),
    ):
        done = precast(tmp_path / "store", *words, PYTHONPATH=str(site))
        assert done.returncode == 0, done.stdout + done.stderr
    cache = Cache(tmp_path / "cache")
    artifacts = [artifact for op in cache.index.ops for artifact in cache.op(op).artifacts]
    assert len(artifacts) == 3
    assert {str(artifact.provenance["facts"]["variables"]) for artifact in artifacts} == {"{}"}

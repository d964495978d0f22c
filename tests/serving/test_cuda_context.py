"""CUDA's context is made beside the imports: before torch is imported, and where there is no driver not at all."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable

import pytest
from serving import __main__ as program
from serving import cuda_context
from serving.start import KINDS

from tests.helpers.source_tree import ROOT


def test_the_kinds_of_kernels_are_those_of_the_start() -> None:
    assert tuple(KINDS) == program.KERNELS


def test_the_context_is_begun_before_torch_is_imported() -> None:
    code = """
import sys
from serving import __main__ as program, cuda_context
class Begun(Exception): pass
def begin(): raise Begun
cuda_context.make_in_thread = begin
try: program.main(["--kernels", "cache"])
except Begun: assert "torch" not in sys.modules
else: raise AssertionError("not begun")
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "examples", check=True)


def test_without_a_driver_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    assert cuda_context.make_in_thread() is None


MADE = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]


@pytest.mark.parametrize(("failing", "called"), [("", MADE), ("cuInit", MADE[:1]), ("cuDeviceGet", MADE[:2])])
def test_each_step_needs_the_one_before(monkeypatch: pytest.MonkeyPatch, failing: str, called: list[str]) -> None:
    found = []

    class Driver:
        def __getattr__(self, name: str) -> Callable[..., int]:
            def call(*arguments: object) -> int:
                found.append(name)
                return 999 if name == failing else 0

            return call

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    thread = cuda_context.make_in_thread()
    assert thread is not None
    thread.join(10)
    assert found == called

"""The start's early part: what it needs of later modules it repeats, and no driver is no error."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
from serving import __main__ as program
from serving import early_cuda
from serving.start import KINDS

from tests.helpers.source_tree import ROOT


def test_the_kinds_of_kernels_are_those_of_the_start() -> None:
    assert tuple(KINDS) == program.KERNELS


def test_the_arguments_are_read_before_torch_is_imported() -> None:
    code = "import sys, serving.__main__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "examples", check=True)


def test_without_a_driver_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    assert early_cuda.begin() is None


def test_the_context_of_the_first_device_is_made_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    class Driver:
        def __getattr__(self, name: str) -> object:
            def call(*arguments: object) -> int:
                called.append(name)
                return 0

            return call

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    thread = early_cuda.begin()
    assert thread is not None
    thread.join(10)
    assert called == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]

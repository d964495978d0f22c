"""The call path as a module: where there is none, in other interpreters, after a fork."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.values import replace
from precast.loader.launch import callpath
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, echo_cache, run_alone


def open_kernel(cache: Cache, op: str, artifact: Artifact) -> Kernel:
    return KernelOpener(lambda device: Machine(arch=platform.machine(), absent="none here")).open(cache, op, artifact)


def test_a_kernel_without_a_device_does_not_launch(native: Native, tmp_path: Path) -> None:
    cache, chosen = echo_cache(native, tmp_path / "echo")
    kernel = open_kernel(cache, "echo", chosen)
    for _ in range(2):
        with pytest.raises(loader.NoCudaDevice):
            kernel(1)
    fast_kernel: Any = type(kernel)
    bare = fast_kernel.__new__(fast_kernel)
    with pytest.raises(AttributeError):
        bare(1)


def test_without_it_everything_works(native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, chosen = echo_cache(native, tmp_path / "echo")
    monkeypatch.setenv(callpath.VARIABLE, "0")
    assert type(open_kernel(cache, "echo", chosen)) is Kernel
    monkeypatch.delenv(callpath.VARIABLE)
    monkeypatch.setattr(sys, "abiflags", "t")
    assert type(open_kernel(cache, "echo", chosen)) is Kernel


@pytest.mark.parametrize(
    ("error", "words"),
    [(ModuleNotFoundError("none"), "installed without native code"), (ImportError("no symbol"), "no symbol")],
)
def test_without_native_code_an_object_goes_through_tvm_ffi_and_a_cubin_is_refused(
    native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ImportError, words: str
) -> None:
    class Refusing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "precast.loader.native._callpath":
                raise error

    monkeypatch.delitem(sys.modules, "precast.loader.native._callpath", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    cache, chosen = echo_cache(native, tmp_path / "echo")
    assert type(open_kernel(cache, "echo", chosen)) is Kernel
    with pytest.raises(loader.LoadError, match=rf"is a cubin, .*{words}.*install a wheel of precast-loader"):
        open_kernel(cache, "echo", replace(chosen, kind="cubin", host=None))


def test_a_sub_interpreter_is_refused(native: Native, tmp_path: Path) -> None:
    """Native state is one interpreter's; a second one gets an error, and the first goes on."""
    cache, _ = echo_cache(native, tmp_path / "echo")
    inner = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "from precast import loader\n"
        "try: loader.get('echo', target='sm_90a')\n"
        "except loader.LoadError as error: assert 'main interpreter' in str(error)\n"
        "else: raise SystemExit('it was not refused')\n"
    )
    outer = (
        "try: import _xxsubinterpreters as interpreters\n"
        "except ImportError: import _interpreters as interpreters\n"
        "from precast.loader.session import Session\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machines, replace\n"
        "from precast.loader.resolve.candidate import Request\n"
        "here = Machines(replace(Machines().host, capability=Capability(9, 0)))\n"
        "first = Session(machines=here).get(Request(op='echo'))\n"
        f"number = interpreters.create()\n"
        f"failed = interpreters.run_string(number, {inner!r})\n"
        "assert failed is None, failed\n"
        "interpreters.destroy(number)\n"
        "assert first(1) == 1\n"
    )
    run_alone(outer, cache.path)


def test_it_survives_a_fork(native: Native, tmp_path: Path) -> None:
    cache, _ = echo_cache(native, tmp_path / "echo")
    code = (
        "import os, sys\n"
        "from precast.loader.session import Session\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machines, replace\n"
        "from precast.loader.resolve.candidate import Request\n"
        "here = Machines(replace(Machines().host, capability=Capability(9, 0)))\n"
        "kernel = Session(machines=here).get(Request(op='echo'))\n"
        "assert kernel(1) == 1\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if kernel(1, 2) == 2 else 3)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    run_alone(code, cache.path)

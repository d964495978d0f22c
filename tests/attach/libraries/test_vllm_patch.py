"""The patch by which vLLM asks for a prebuilt kernel before it compiles one; engine and caches are stand-ins."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from precast.attach.libraries import vllm
from precast.attach.seams.method_hooks import STATE
from precast.loader.attach.libraries import vllm as door
from tests.helpers.source_tree import ROOT

WARMUP = "vllm.model_executor.warmup"
HELPER = f"{WARMUP}.jit_warmup_cutedsl_helper"
PATCH = ROOT / "docs" / "upstream" / "vllm.patch"
Owner = type("VllmCuTeDSLJitKernel", (), {"__module__": HELPER, "compile": None})


class Kernels:
    """An attachment that has the kernel of one key."""

    def obtain(self, library: Any, function: str, arguments: Any, owner: Any = None) -> Any:
        self.asked = function, arguments
        return (None, {"_compiled_cache": {1: "prebuilt"}}) if arguments["compile_key"] == 1 else None


def test_a_prebuilt_kernel_is_looked_up_by_the_key_of_the_attached_method(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, owner = Kernels(), type("RmsNorm", (Owner,), {"__module__": "vllm.norms"})()
    vars(owner).update(tile=64, _compiled_cache={})
    monkeypatch.setattr(vllm, "attached", lambda: kernels)
    assert (vllm.prebuilt_executor(owner, 1), vllm.prebuilt_executor(owner, 2)) == ("prebuilt", None)
    assert kernels.asked == ("vllm.norms:RmsNorm.compile", {STATE: (("tile", 64),), "compile_key": 2})


def test_a_build_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "attached", lambda: None)
    monkeypatch.setattr(vllm, "_unattached", Kernels)
    monkeypatch.setitem(sys.modules, "precast.build", ModuleType("precast.build"))
    assert vllm.prebuilt_executor(Owner(), 1) is None
    monkeypatch.delitem(sys.modules, "precast.build")
    assert vllm.prebuilt_executor(Owner(), 1) == "prebuilt"


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_the_patched_vllm_compiles_only_what_is_not_prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None and spec.submodule_search_locations
    installed = spec.submodule_search_locations[0]
    file = Path("model_executor", "warmup", "jit_warmup_cutedsl_helper.py")
    (tmp_path / "vllm" / file).parent.mkdir(parents=True)
    shutil.copy(Path(installed, file), tmp_path / "vllm" / file)
    subprocess.run(["patch", "-p1", "-i", PATCH], cwd=tmp_path, check=True, capture_output=True)
    base = SimpleNamespace(VllmJitKernel=type("VllmJitKernel", (), {"__class_getitem__": classmethod(lambda c, _: c)}))
    monkeypatch.setitem(sys.modules, f"{WARMUP}.jit_warmup", base)
    names: dict[str, Any] = {"__name__": HELPER}
    exec(compile((tmp_path / "vllm" / file).read_text(), str(file), "exec"), names)
    names["compile_cutedsl"] = lambda entry, *arguments: ("compiled", entry, *arguments)
    own = {"kernel": staticmethod(lambda key: f"kernel {key}"), "warmup_inputs": lambda self, key: (key,)}
    owner = type("Norm", (names["VllmCuTeDSLJitKernel"],), own)()
    owner._compiled_cache = {}
    monkeypatch.setattr(door, "prebuilt_executor", lambda it, key: "prebuilt" if it is owner and key == 1 else None)
    for key in (1, 2):
        owner.compile(key)
    assert owner._compiled_cache == {1: "prebuilt", 2: ("compiled", "kernel 2", 2)}
    monkeypatch.setitem(sys.modules, "precast.loader.attach.libraries.vllm", None)
    owner._compiled_cache.clear()
    owner.compile(1)
    assert owner._compiled_cache == {1: ("compiled", "kernel 1", 1)}

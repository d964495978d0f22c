"""Adapters: found by entry points, imported only for what their names say that they take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from precast.kernels.authoring.adapter import adapter_sources
from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.registry import FunctionRef, load


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the module path, for distributions and modules of one test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def distribution(folder: Path, name: str, adapters: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[precast.adapters]\n{adapters}\n")


def test_a_third_party_adapter_takes_functions_by_name(installed: Path) -> None:
    distribution(installed, "acme", "build_graph = acme_functions:kernel_of_module")
    (installed / "acme_functions.py").write_text(
        "def kernel_of_module(name):\n    return None if name == 'acme_plain' else lambda n: (name, n)\n"
    )
    (installed / "acme_plain.py").write_text("def build_graph(n): return n\n")
    assert load(FunctionRef.parse("acme_graphs:build_graph"))(3) == ("acme_graphs", 3), "a module it need not import"
    assert load(FunctionRef.parse("acme_plain:build_graph"))(3) == 3, "the adapter left it as it is"
    assert ("build_graph", "acme_functions:kernel_of_module") in adapter_sources()


def test_a_third_party_adapter_takes_classes_by_their_base(installed: Path) -> None:
    distribution(installed, "acme-ops", "acme_ops.Op = acme_classes:kernel_of_class")
    (installed / "acme_ops.py").write_text("class Op: ...\nclass Add(Op): ...\nclass Other: ...\n")
    (installed / "acme_classes.py").write_text("def kernel_of_class(cls):\n    return lambda: cls.__name__\n")
    assert load(FunctionRef.parse("acme_ops:Add"))() == "Add"
    assert load(FunctionRef.parse("acme_ops:Other")).__name__ == "Other"


def test_an_adapter_that_cannot_be_imported_costs_only_what_it_takes(installed: Path) -> None:
    distribution(installed, "acme-broken", "build_broken = acme_broken:make\nbuild_torch = acme_torch:make")
    (installed / "acme_broken.py").write_text("1 / 0\n")
    (installed / "acme_torch.py").write_text("import flash_attn.absent\n")
    assert load(FunctionRef.parse("json:dumps"))([1]) == "[1]"
    with pytest.raises(SourceError, match=r"acme_broken:make.*ZeroDivisionError.*repair or uninstall acme-broken"):
        load(FunctionRef.parse("json:build_broken"))
    with pytest.raises(SourceError, match=r"acme_torch:make.*pip install 'precast\[flash-attention\]'"):
        load(FunctionRef.parse("json:build_torch"))


def test_what_an_adapter_returns_is_a_function_or_nothing(installed: Path) -> None:
    distribution(installed, "acme-wrong", "build_wrong = acme_wrong:make")
    (installed / "acme_wrong.py").write_text("def make(name): return 3\n")
    with pytest.raises(SourceError, match="acme_wrong:make returned 3: it must return a function or None"):
        load(FunctionRef.parse("json:build_wrong"))


def test_loading_a_plain_function_imports_no_adapter() -> None:
    code = (
        "import sys\nfrom precast.kernels.authoring.registry import FunctionRef, load\n"
        "load(FunctionRef.parse('json:dumps'))\n"
        "print([m for m in sys.modules if m.startswith('precast.kernels.adapters.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

"""Which function compiles which op."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from precast.kernels.authoring.errors import SourceError, UnknownOp
from precast.kernels.authoring.registry import FunctionRef, find, known_ops, load

GROUP = "[precast.kernels]\n"


def distribution(folder: Path, name: str, entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(GROUP + entries)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_kernels_of_this_project_are_registered() -> None:
    assert {"scale", "rmsnorm"} <= set(known_ops())
    assert str(find("rmsnorm")) == "precast.kernels.own.norms.rmsnorm:rmsnorm"
    assert find("rmsnorm").distribution == "precast"


def test_ops_are_found_without_importing_what_registers_them(installed: Path) -> None:
    distribution(installed, "other-kernels", "other.norm = other_kernels.norms:build.norm\nBad Name = a:b\n")
    assert "other.norm" in known_ops() and "Bad Name" not in known_ops()
    assert find("other.norm") == FunctionRef("other_kernels.norms", "build.norm", "other-kernels")
    assert "other_kernels" not in sys.modules


def test_an_unknown_op_names_the_nearest() -> None:
    with pytest.raises(UnknownOp, match=r"did you mean 'rmsnorm'\?.*compile:"):
        find("rms_norm")


def test_two_sources_for_one_op_are_refused_and_the_same_one_twice_is_not(installed: Path) -> None:
    distribution(installed, "first", "same = mine:f\ntwice = mine:f\n")
    distribution(installed, "second", "same = mine:f\ntwice = theirs:f\n")
    assert str(find("same")) == "mine:f"
    with pytest.raises(SourceError, match=r"mine:f \(first\), theirs:f \(second\)"):
        find("twice")


@pytest.mark.parametrize(
    "text", ["", "module", "module:", ":f", "a:b:c", "a b:c", "a..b:c", "a:b.", "1a:b", "a/b:c", "a:b()"]
)
def test_what_names_no_function_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="module:function"):
        FunctionRef.parse(text)


def test_loading(installed: Path) -> None:
    (installed / "precast_sample.py").write_text(
        "class Norms:\n    @staticmethod\n    def build(n): return n\nvalue = 3\n"
    )
    assert load(FunctionRef.parse("precast_sample:Norms.build"))(4) == 4
    with pytest.raises(SourceError, match=r"'precast_sample.Norms' has no 'biuld'; did you mean 'build'"):
        load(FunctionRef.parse("precast_sample:Norms.biuld"))
    with pytest.raises(SourceError, match="is int, not a function"):
        load(FunctionRef.parse("precast_sample:value"))


def test_a_module_that_cannot_be_imported_says_why(installed: Path) -> None:
    (installed / "precast_needs.py").write_text("import precast_never_there\n")
    (installed / "precast_broken.py").write_text("1 / 0\n")
    (installed / "precast_syntax.py").write_text("def (:\n")
    with pytest.raises(SourceError, match=r"there is no module 'precast_absent'.*path:"):
        load(FunctionRef.parse("precast_absent.inner:f"))
    with pytest.raises(SourceError, match="needs the module 'precast_never_there'"):
        load(FunctionRef.parse("precast_needs:f"))
    with pytest.raises(SourceError, match="ZeroDivisionError"):
        load(FunctionRef.parse("precast_broken:f"))
    with pytest.raises(SourceError, match="SyntaxError"):
        load(FunctionRef.parse("precast_syntax:f"))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("import torch\n", r"needs the module 'torch': pip install 'precast\[torch\]'"),
        ("import torch.nn\n", r"needs the module 'torch': pip install 'precast\[torch\]'"),
        ("import quack.absent\n", r"pip install 'precast\[quack\]'"),
    ],
)
def test_a_missing_module_of_an_extra_names_the_extra(
    installed: Path, monkeypatch: pytest.MonkeyPatch, text: str, command: str
) -> None:
    for name in ("torch", "quack"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    (installed / "precast_extra.py").write_text(text)
    with pytest.raises(SourceError, match=command):
        load(FunctionRef.parse("precast_extra:f"))


def test_a_missing_library_that_a_manifest_names_says_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "quack", None)
    with pytest.raises(SourceError, match=r"there is no module 'quack'.*pip install 'precast\[quack\]', add its"):
        load(FunctionRef.parse("quack:f"))


def test_the_extras_that_errors_name_exist() -> None:
    from importlib.metadata import metadata

    from precast.kernels.authoring.extras import extra_of

    modules = ("torch", "cutlass.operators", "quack", "triton", "flashinfer", "flash_attn")
    assert {extra_of(module) for module in modules} <= set(metadata("precast").get_all("Provides-Extra") or ())

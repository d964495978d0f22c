"""``@kernel`` takes functions of the kernel's module by their names, and nothing that may be meant otherwise."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from precast.kernels import declaration_of
from precast.kernels.authoring.errors import DeclarationError

Write = Callable[[str], ModuleType]
NORM = """
from precast.kernels import kernel

def supports(config, target): return "never"
def problems(config): return [{"n": 1}]
def inputs(config, problem, *, device, seed): return {"out": 0}
def reference(config, inputs): return {"out": 0}

"""
KERNEL = '@kernel(op="norm", outputs=["out"])\ndef norm(n: int): ...\n'


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module, and import it."""
    monkeypatch.syspath_prepend(tmp_path)

    def imported(text: str) -> ModuleType:
        (tmp_path / "kernels_of_a_test.py").write_text(text)
        monkeypatch.delitem(sys.modules, "kernels_of_a_test", raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("kernels_of_a_test")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return imported


def test_functions_of_the_module_are_taken_by_their_names(write: Write) -> None:
    module = write(NORM + KERNEL)
    declared = declaration_of(module.norm)
    assert (declared.supports, declared.problems) == (module.supports, module.problems)
    assert (declared.inputs, declared.reference) == (module.inputs, module.reference)
    assert declared.verifiable and declared.cost is None


def test_what_the_decorator_says_comes_first(write: Write) -> None:
    module = write(NORM + "def other(config, target): ...\n" + KERNEL.replace("outputs", "supports=other, outputs"))
    assert declaration_of(module.norm).supports is module.other
    module = write(NORM + KERNEL.replace("outputs", "supports=None, outputs"))
    assert declaration_of(module.norm).supports is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def cost(flops): ...\n", r"cost of its module takes \(flops\), not \(config, problem\): rename it, or write"),
        ("def costs(config, problem): ...\n", "its module has costs and no cost: rename it, or write cost=None"),
        ("def Tolerance(config): ...\n", "its module has Tolerance and no tolerance: rename it"),
    ],
    ids=["another purpose", "a letter too many", "a capital"],
)
def test_a_function_that_may_be_meant_otherwise_is_an_error(write: Write, text: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=rf"kernels_of_a_test\.norm: {said}"):
        write(NORM + text + KERNEL)
    name = "tolerance" if "olerance" in text else "cost"
    module = write(NORM + text + KERNEL.replace("outputs", f"{name}=None, outputs"))
    assert getattr(declaration_of(module.norm), name) is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (NORM.replace("def problems", "def made"), "problems"),
        (NORM.replace("def problems", "def made").replace("def inputs", "def filled"), "problems and inputs"),
    ],
)
def test_a_reference_without_what_it_is_compared_on_is_an_error(write: Write, text: str, missing: str) -> None:
    with pytest.raises(DeclarationError, match=f"verifying needs {missing} too: add them, or write reference=None"):
        write(text + KERNEL)
    with pytest.raises(DeclarationError, match="verifying needs outputs too"):
        write(NORM + KERNEL.replace(', outputs=["out"]', ""))


def test_what_a_module_imports_is_not_taken(write: Write) -> None:
    module = write("from textwrap import indent as cost\nfrom precast.kernels import kernel\n" + KERNEL)
    assert declaration_of(module.norm).cost is None


def test_a_second_kernel_says_what_it_takes(write: Write) -> None:
    second = '@kernel(op="other", outputs=["out"]ALL)\ndef other(n: int): ...\n'
    with pytest.raises(
        DeclarationError, match=r"other: its module has another kernel, norm: write supports=supports or"
    ):
        write(NORM + KERNEL + second.replace("ALL", ""))
    names = ", supports=None, problems=problems, inputs=inputs, reference=reference"
    module = write(NORM + KERNEL + second.replace("ALL", names))
    assert declaration_of(module.other).supports is None
    again = importlib.reload(module)  # where the other kernel is there from the first time
    assert declaration_of(again.norm).supports is again.supports


def test_a_kernel_inside_of_a_function_takes_nothing(write: Write) -> None:
    inner = "".join(f"    {line}\n" for line in KERNEL.splitlines())
    module = write(NORM + f"def made():\n{inner}    return norm\n")
    assert declaration_of(module.made()).supports is None

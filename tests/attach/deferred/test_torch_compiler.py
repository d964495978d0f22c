"""Torch's compiler waits for its first use, and what a library has decorated before then behaves as torch promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import passes

pytest.importorskip("torch")

DECORATED = """
import inspect
import torch

@torch.compiler.disable
def left_out(x):
    "Its text."
    return x + 1, torch.compiler.is_compiling()

class Tuner:
    @torch.compiler.disable
    def method(self, x):
        return x + 2

def constant():
    return 5

constant = torch._dynamo.assume_constant_result(constant)

def doubled(x):
    return x * 2, torch.compiler.is_compiling()

torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 77)
LIMITS = "dynamic" in inspect.signature(torch.compile).parameters
compiled = torch.compile(doubled, backend="eager", fullgraph=True)
tracing = torch._dynamo.is_compiling()
"""
ATTACHED = """
import sys
import torch
assert "torch._dynamo" not in sys.modules
from precast.attach import Library, TorchCompiler, attach
mine = Library(name="mine", distribution="minilib", package="minilib", seams=(TorchCompiler(),))
original = torch.compile
attach([mine], mode="frozen")
from minilib import decorated
executed = lambda: "torch._dynamo.eval_frame" in sys.modules
assert not executed() and "sympy" not in sys.modules
x = torch.ones(3)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_library(tmp_path / "site", {f"{PACKAGE}/decorated.py": DECORATED})


def test_decorating_and_calling_use_no_compiler(site: Path) -> None:
    code = """
assert decorated.left_out(x)[0].tolist() == [2, 2, 2] and decorated.Tuner().method(x).tolist() == [3, 3, 3]
assert decorated.left_out.__name__ == "left_out" and decorated.left_out.__doc__ == "Its text."
assert decorated.constant() == 5 and decorated.tracing is False and decorated.LIMITS
assert torch._dynamo.config.recompile_limit == 77
assert not executed()
"""
    passes(ATTACHED + code, path=[site], imported=["torch"])


@pytest.mark.slow
def test_what_the_library_compiles_is_compiled_at_its_first_call(site: Path) -> None:
    """And an argument that torch refuses is an error of the call."""
    (site / PACKAGE / "wrong.py").write_text(
        "import torch\ndef f(x): return x\ng = torch.compile(f, backend='no such backend')\n"
    )
    code = """
from minilib import wrong
assert not executed() and decorated.doubled(x)[1] is False
y, compiling = decorated.compiled(x)
assert compiling and y.tolist() == [2, 2, 2] and executed()
assert torch.compile is original
assert torch._dynamo.config.recompile_limit == 77 and torch._dynamo.config is sys.modules["torch._dynamo.config"]
torch._dynamo.reset()
try:
    wrong.g(x)
except Exception as error:
    assert "no such backend" in str(error), error
else:
    raise AssertionError("it was accepted")
"""
    passes(ATTACHED + code, path=[site], imported=["torch"])


@pytest.mark.slow
def test_a_program_that_compiles_does_not_trace_what_was_disabled(site: Path) -> None:
    """And inlines what the library has compiled."""
    code = """
def whole(x):
    outside = torch.compiler.is_compiling()
    y, inside = decorated.left_out(x * 3)
    return decorated.Tuner().method(y), inside, outside

y, inside, outside = torch.compile(whole, backend="eager")(x)
assert executed() and y.tolist() == [6, 6, 6] and not inside and outside
torch._dynamo.reset()
try:
    torch.compile(whole, backend="eager", fullgraph=True)(x)
except Exception as error:
    assert "disable" in str(error), error
else:
    raise AssertionError("the disabled function was traced")
assert decorated.constant._dynamo_marked_constant
y, compiling = torch.compile(lambda x: decorated.compiled(x), backend="eager", fullgraph=True)(x)
assert compiling and y.tolist() == [2, 2, 2]
"""
    passes(ATTACHED + code, path=[site], imported=["torch"])


@pytest.mark.slow
def test_a_program_that_has_the_compiler_keeps_it_as_it_is(site: Path) -> None:
    code = """
import torch, sys
import torch._dynamo
from precast.attach import Library, TorchCompiler, attach
original = torch.compile
attach([Library(name="mine", distribution="minilib", package="minilib", seams=(TorchCompiler(),))], mode="frozen")
assert torch.compile is original
from minilib import decorated
assert decorated.left_out._torchdynamo_disable and hasattr(decorated.compiled, "_torchdynamo_orig_callable")
"""
    passes(code, path=[site], imported=["torch._dynamo"])


@pytest.mark.slow
def test_torch_may_be_imported_after_attaching(site: Path) -> None:
    code = """
import sys
from precast.attach import Library, TorchCompiler, attach
attach([Library(name="mine", distribution="minilib", package="minilib", seams=(TorchCompiler(),))], mode="frozen")
from minilib import decorated
import torch
assert "torch._dynamo.eval_frame" not in sys.modules
assert decorated.compiled(torch.ones(2))[1] is True
"""
    passes(code, path=[site])

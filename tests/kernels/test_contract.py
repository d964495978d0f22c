"""Files with ``kernel_fn``, ``reference_fn`` and ``get_inputs``: built, loaded and verified as they stand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.kernels.declare import Declaration, declaration_of
from precast.kernels.errors import SourceError
from precast.kernels.registry import Source, load
from precast.kernels.verify import verify
from tests.build.fleet import precast

torch = pytest.importorskip("torch")

RELU = """
'''Rectified linear unit of a matrix.'''
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def relu_kernel(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    rows, columns = x.shape
    if i < rows * columns:
        value = x[i // columns, i % columns]
        out[i // columns, i % columns] = value if value > 0 else x.element_type(0)

@cute.jit
def relu(x: cute.Tensor, out: cute.Tensor):
    blocks = (cute.size(x) + 127) // 128
    relu_kernel(x, out).launch(grid=[blocks, 1, 1], block=[128, 1, 1])

def view(tensor):
    return from_dlpack(tensor, assumed_align=16).mark_layout_dynamic()

sample = torch.empty(8, 8, dtype=torch.float16, device="cuda")
compiled = cute.compile(relu, view(sample), view(torch.empty_like(sample)))

def kernel_fn(x):
    out = torch.empty_like(x)
    compiled(view(x), view(out))
    return out

def reference_fn(x):
    return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 32, dtype=torch.float16, device="cuda")]
"""

# Compiled at the first call and kept; two inputs, a constant, a stream, and a result that is a view.
AXPY = """
import functools
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def axpy_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, a: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        out[i] = x[i] * a + y[i]

@cute.jit
def axpy(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, a: cutlass.Constexpr, stream: cuda.CUstream):
    axpy_kernel(x, y, out, a).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)

@functools.cache
def compiled(a):
    views = (from_dlpack(torch.empty(64, device="cuda")).mark_layout_dynamic() for _ in range(3))
    return cute.compile(axpy, *views, a, cuda.CUstream(0))

def kernel_fn(x, y):
    assert x.is_cuda and y.device.type == "cuda" and x.get_device() == 0
    out = torch.empty(x.shape, device=x.device).copy_(x)
    flat = [from_dlpack(t.view(-1)).mark_layout_dynamic() for t in (x, y, out)]
    compiled(2.0)(*flat, cuda.CUstream(0))
    return (out,)

def reference_fn(x, y):
    return x * 2.0 + y

def get_inputs():
    return [torch.randn(4, 100).to("cuda"), torch.rand(4, 100).cuda()]
"""

# For TVM-FFI by its own word, on plain tensors, in place.
DOUBLE = """
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

@cute.kernel
def double_kernel(x: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        x[i] = x[i] + x[i]

@cute.jit
def double(x: cute.Tensor, stream):
    double_kernel(x).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)

fake = make_fake_compact_tensor(cutlass.BFloat16, (cute.sym_int(),), assumed_align=16)
stream = make_fake_stream(use_tvm_ffi_env_stream=True)
compiled = cute.compile(double, fake, stream, options="--enable-tvm-ffi")

def kernel_fn(x):
    compiled(x)
    return x

def reference_fn(x):
    return x + x

def get_inputs():
    return [torch.randn(1000, dtype=torch.bfloat16, device="cuda")]
"""
FILES = {"relu": RELU, "axpy": AXPY, "double": DOUBLE}
MANIFEST = """
version: 1
name: files
targets: [sm_90a, sm_100a]
path: .
kernels:
  - {compile: "relu:kernel_fn", op: mine.relu}
  - {compile: "axpy:kernel_fn"}
  - {compile: "double:kernel_fn"}
"""


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Declaration]]:
    """The declaration of a file with this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def declare(text: str) -> Declaration:
        (tmp_path / "a_kernel_file.py").write_text(text)
        return declaration_of(load(Source.parse("a_kernel_file:kernel_fn")))

    yield declare
    sys.modules.pop("a_kernel_file", None)


@pytest.mark.slow
def test_such_files_are_built_and_loaded_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "files.yaml").write_text(MANIFEST)
    built = precast(tmp_path / "store", "build", tmp_path / "files.yaml", "-o", tmp_path / "cache", "-j", 1)
    assert built.returncode == 0, built.stderr
    assert "6 variants built" in built.stdout
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(tmp_path / "cache"))
    loader.caches(refresh=True)
    try:
        for target in ("sm_90a", "sm_100a"):
            kernels = {op: loader.get(op, {}, target=target) for op in ("mine.relu", "axpy", "double")}
            taken = {op: [(a.name, a.written) for a in k.signature.passed] for op, k in kernels.items()}
            assert taken == {
                "mine.relu": [("x", False), ("out", True)],
                "axpy": [("x", False), ("y", False), ("out", True), ("stream", False)],
                "double": [("x", True)],
            }
    finally:
        monkeypatch.undo()
        loader.caches(refresh=True)


def relu(x: Any, out: Any) -> None:
    out.copy_(x.clamp(min=0))


def axpy(x: Any, y: Any, out: Any, stream: Any) -> None:
    out.copy_(2 * x + y)


def double(x: Any) -> None:
    x.add_(x.clone())


@pytest.mark.parametrize(("name", "launch"), [("relu", relu), ("axpy", axpy), ("double", double)])
def test_the_kit_knows_their_inputs_and_references(declared: Any, name: str, launch: Callable[..., None]) -> None:
    declaration = declared(FILES[name])
    assert declaration.verifiable and declaration.keys == ()
    (check,) = verify(launch, declaration, {}, device="cpu")
    assert check.passed, check
    (check,) = verify(lambda *values: None, declaration, {}, device="cpu")
    assert not check.passed, "a kernel that does nothing"
    one, other, again = (declaration.inputs({}, {}, device="cpu", seed=seed)["x"] for seed in (1, 2, 1))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_what_is_read_and_written_is_in_place(declared: Any) -> None:
    assert declared(DOUBLE).in_place == ("x",)
    assert declared(RELU).in_place == ()
    assert declared(DOUBLE).tolerance({}).rtol == torch.finfo(torch.bfloat16).eps
    assert declared(AXPY).tolerance({}).rtol == 1e-3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "def reference_fn",
            "def reference",
            "has kernel_fn and get_inputs and no reference_fn: a kernel file has all",
        ),
        ("def get_inputs", "def inputs", "has kernel_fn and reference_fn and no get_inputs: a kernel file has all"),
        ("def kernel_fn", "def kernel", "has reference_fn and get_inputs and no kernel_fn: a kernel file has all"),
        ("    compiled(view(x), view(out))", "    relu(view(x), view(out))", "compile it once with cute.compile"),
        ("    compiled(view(x), view(out))", "    out.copy_(x)", "called 0 objects that cute.compile has made"),
        ("    return out", "    return out + 1", "return the tensors that the kernel writes"),
        ("    return out", "    return None", "return the tensors that the kernel writes"),
        (
            "    out = ",
            "    assert x.sum().item() > 0\n    out = ",
            "it may look at shapes and types, and not at values",
        ),
    ],
)
def test_a_file_with_half_of_it_is_told_what_is_missing(declared: Any, old: str, new: str, words: str) -> None:
    assert RELU.count(old) == 1
    with pytest.raises(SourceError) as caught:
        declared(RELU.replace(old, new))
    assert words in str(caught.value), caught.value


def test_a_reference_that_returns_something_else_is_told_so(declared: Any) -> None:
    declaration = declared(RELU.replace("    return torch.relu(x)", "    return torch.relu(x), x"))
    with pytest.raises(SourceError, match="returns 2 values and kernel_fn 1: return the same from both"):
        list(verify(relu, declaration, {}, device="cpu"))


def test_a_function_that_only_has_the_name_is_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_plain_file.py").write_text("def kernel_fn(n: int):\n    return n\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = load(Source.parse("a_plain_file:kernel_fn"))
    assert function(7) == 7
    assert [key.name for key in declaration_of(function, "plain").keys] == ["n"]
    sys.modules.pop("a_plain_file")

"""Kernels as PyTorch operators, on the CPU: the entry is one that runs there."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from precast import loader
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Capability
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.torch_op import schema_of
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter, Native, artifact

HOPPER = Machine(arch=platform.machine(), capability=Capability(9, 0))


def make(native: Native, folder: Path, offset: int = 0, written: bool = True) -> Kernel:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    x, y = (Argument(name=n, kind="tensor", dtype="float32", shape=("n",), device="cpu") for n in ("x", "y"))
    signature = Signature(arguments=(x, y, Argument(name="factor", kind="scalar", dtype="float32")))
    made = artifact(writer.keep(native.entry("scale", offset=offset)), {"dtype": "float32"})
    writer.op("scale", [replace(made, signature=signature.writing(["y"] if written else []))])
    cache = Cache(writer.write(folder / str(offset)))
    return KernelOpener(lambda device: HOPPER).open(cache, "scale", cache.op("scale").artifacts[0])


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    return make(Native(tmp_path_factory.mktemp("native")), tmp_path_factory.mktemp("cache"))


def test_schema(kernel: Kernel) -> None:
    assert schema_of(kernel) == "(Tensor x, Tensor(a1!) y, float factor) -> ()"
    assert str(loader.torch_op(kernel)._schema).startswith("precast::scale_")  # type: ignore[attr-defined]


def test_it_computes_and_is_registered_once(kernel: Kernel) -> None:
    operator = loader.torch_op(kernel)
    assert loader.torch_op(kernel) is operator
    x, y = torch.randn(8), torch.empty(8)
    assert operator(x, y, 3.0) is None
    assert (y == 3 * x).all()
    assert operator(x=x, y=y, factor=2.0) is None
    assert (y == 2 * x).all()


def test_torch_checks_it(kernel: Kernel) -> None:
    done = torch.library.opcheck(loader.torch_op(kernel), (torch.randn(8), torch.empty(8), 3.0))
    assert set(done.values()) == {"SUCCESS"}, done


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compiles_it_whole(kernel: Kernel, backend: str) -> None:
    operator = loader.torch_op(kernel)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        operator(x + 1, y, 3.0)
        operator(y, y, 2.0)
        return y * 2

    compiled: Any = torch.compile(program, fullgraph=True, backend=backend)
    for size in (4, 9, 16):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), program(x))


def test_errors_reach_the_caller(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="expected two float32 vectors"):
        loader.torch_op(kernel)(torch.zeros(2, 2), torch.zeros(2), 1.0)
    with pytest.raises(RuntimeError):
        loader.torch_op(kernel)(torch.zeros(2), 1.0)


def test_the_name_of_an_op_is_no_kernel() -> None:
    with pytest.raises(loader.ConfigError, match=r"'scale' is not a kernel: give what loader\.get returned"):
        loader.torch_op("scale")  # type: ignore[arg-type]


def test_two_versions_side_by_side(native: Native, tmp_path: Path) -> None:
    one, other = make(native, tmp_path, 0), make(native, tmp_path, 1)
    first, second = loader.torch_op(one), loader.torch_op(other)
    assert first is not second
    loader.torch_op(one, "mine::scale")
    assert loader.torch_op(one, "mine::scale") is torch.ops.mine.scale.default
    with pytest.raises(loader.ConfigError, match=r"is registered for another kernel.*choose another name"):
        loader.torch_op(other, "mine::scale")
    y = torch.empty(2)
    second(torch.ones(2), y, 5.0)
    assert y.tolist() == [5, 5]


def test_what_cannot_be_an_operator(native: Native, tmp_path: Path, kernel: Kernel) -> None:
    with pytest.raises(loader.ConfigError, match=r"its author names none: give outputs=\[..\] out of x, y"):
        loader.torch_op(make(native, tmp_path, 0, written=False))
    with pytest.raises(loader.ConfigError, match="z is not one of its tensors"):
        loader.torch_op(kernel, outputs=["y", "z"])
    with pytest.raises(loader.ConfigError, match="not the name of an operator"):
        loader.torch_op(kernel, "scale")
    kernel = make(native, tmp_path, 3)
    pointer = Argument(name="p", kind="pointer")
    kernel.signature = replace(kernel.signature, arguments=(*kernel.signature.arguments, pointer))
    with pytest.raises(loader.ConfigError, match="no type for p"):
        loader.torch_op(kernel)

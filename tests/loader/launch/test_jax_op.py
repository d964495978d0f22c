"""Kernels as JAX functions, on the CPU: the entry is one that runs there."""

from __future__ import annotations

import contextlib
import importlib
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Capability
from precast.loader.errors import ConfigError, LoadError
from precast.loader.launch.jax_op import plan_of
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter, Native, artifact

HOPPER = Machine(arch=platform.machine(), capability=Capability(9, 0))
X, Y, W = (Argument(name=n, kind="tensor", dtype="float32", shape=("n",), device="cpu") for n in ("x", "y", "w"))
FACTOR = Argument(name="factor", kind="scalar", dtype="float32")
MATRIX = replace(X, name="b", shape=("k", "n"))


def kernel_of(native: Native, folder: Path, arguments: tuple[Argument, ...] = (X, Y, FACTOR)) -> Kernel:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    made = artifact(writer.keep(native.entry("scale")), {"dtype": "float32"})
    writer.op("scale", [replace(made, signature=Signature(arguments=arguments).writing(["y"]))])
    cache = Cache(writer.write(folder / "cache"))
    return KernelOpener(lambda device: HOPPER).open(cache, "scale", cache.op("scale").artifacts[0])


@pytest.fixture
def jax() -> Any:
    pytest.importorskip("jax_tvm_ffi", reason="it needs pip install './loader[jax]'")
    import jax

    with contextlib.suppress(RuntimeError):  # JAX has started: whatever did that has set it
        jax.config.update("jax_num_cpu_devices", 2)
    return jax


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return kernel_of(Native(tmp_path), tmp_path)


@pytest.fixture
def scale(kernel: Kernel, jax: Any) -> Any:
    return loader.jax_op(kernel)


def test_it_computes_inside_and_outside_jit(scale: Any, jax: Any) -> None:
    x = jax.numpy.arange(8, dtype="float32")
    assert (scale(x, factor=3.0) == 3 * x).all()
    assert (jax.jit(lambda x: scale(x, factor=3.0) + 1)(x) == 3 * x + 1).all()


def test_vmap_is_refused_or_a_launch_for_each_element(kernel: Kernel, scale: Any, jax: Any) -> None:
    x = jax.numpy.arange(8, dtype="float32").reshape(2, 4)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        jax.vmap(lambda x: scale(x, factor=3.0))(x)
    each = loader.jax_op(kernel, vmap_method="sequential")
    assert (jax.jit(jax.vmap(lambda x: each(x, factor=3.0)))(x) == 3 * x).all()


def test_gradients_are_left_to_custom_vjp(scale: Any, jax: Any) -> None:
    def tripled(x: Any) -> Any:
        return scale(x, factor=3.0)

    x = jax.numpy.ones(4, dtype="float32")
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: tripled(x).sum())(x)
    declared = jax.custom_vjp(tripled)
    declared.defvjp(lambda x: (tripled(x), None), lambda _, dy: (scale(dy, factor=3.0),))
    assert (jax.jit(jax.grad(lambda x: declared(x).sum()))(x) == 3).all()


def test_sharded_arrays(scale: Any, jax: Any) -> None:
    sharding = jax.sharding
    parts = sharding.PartitionSpec("d")
    mesh = jax.make_mesh((2,), ("d",))
    x = jax.device_put(jax.numpy.arange(8, dtype="float32"), sharding.NamedSharding(mesh, parts))
    assert (jax.jit(lambda x: scale(x, factor=3.0))(x) == 3 * x).all()
    mapped = jax.shard_map(lambda x: scale(x, factor=3.0), mesh=mesh, in_specs=parts, out_specs=parts, check_vma=False)
    result = jax.jit(mapped)(x)
    assert (result == 3 * x).all() and result.sharding.spec == parts


def test_wrong_calls(scale: Any, jax: Any) -> None:
    x = jax.numpy.ones(4, dtype="float32")
    for arrays, numbers in (((x,), {}), ((x, x), {"factor": 1.0}), ((x,), {"factor": 1.0, "other": 2})):
        with pytest.raises(TypeError, match=r"call it as scale\(x, factor=\), and it returns y"):
            scale(*arrays, **numbers)
    with pytest.raises(ConfigError, match=r"not int32: convert it"):
        scale(x.astype("int32"), factor=1.0)
    with pytest.raises(ConfigError, match=r"takes x: float32\[n\], not an array of shape \[2, 2\]"):
        scale(x.reshape(2, 2), factor=1.0)
    with pytest.raises(TypeError, match="factor must be a number when JAX traces the call"):
        jax.jit(scale)(x, factor=1.0)
    assert (jax.jit(scale, static_argnames="factor")(x, factor=3.0) == 3).all()


def test_what_the_kernel_itself_refuses_is_an_error_of_jax(tmp_path: Path, jax: Any) -> None:
    rows = [replace(argument, shape=("m", "n")) for argument in (X, Y)]
    wrong = loader.jax_op(kernel_of(Native(tmp_path), tmp_path, (*rows, FACTOR)))
    with pytest.raises(Exception, match="expected two float32 vectors of one length on the CPU"):
        jax.block_until_ready(wrong(jax.numpy.ones((2, 4), dtype="float32"), factor=1.0))


def test_a_trace_is_exported_for_a_gpu_without_one(tmp_path: Path, jax: Any) -> None:
    export: Any = importlib.import_module("jax.export")
    there = [replace(argument, device="cuda") for argument in (X, Y)]
    scale = loader.jax_op(kernel_of(Native(tmp_path), tmp_path, (*there, FACTOR)))
    shape = jax.ShapeDtypeStruct((4,), "float32")
    program = jax.jit(lambda x: scale(x, factor=3.0))
    allowed = [export.DisabledSafetyCheck.custom_call(scale.target)]
    exported = export.export(program, platforms=["cuda"], disabled_checks=allowed)(shape)
    assert scale.target in exported.mlir_module() and scale.target.startswith("precast.scale.")


def test_without_jax_and_without_a_kernel(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is not a kernel"):
        loader.jax_op(print)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(LoadError, match=r"pip install 'precast-loader\[jax\]'"):
        loader.jax_op(kernel)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((X, Y, W), "all inputs side by side, and it takes x, y, w"),
        ((X, Y, Argument(name="w", kind="none")), "cannot pass w: None"),
        ((replace(MATRIX, strides=(1, "s")), Y), r"strides \(1, s\): use a variant in which its last dimension"),
        ((replace(MATRIX, shape=(4, 8), strides=(16, 1)), Y), r"strides \(16, 1\)"),
        ((replace(MATRIX, shape=("k",)), Y), "no input has the size n of an output"),
        ((X, FACTOR), r"its outputs are not known: give outputs=\[..\] out of x"),
    ],
)
def test_what_xla_cannot_call_is_refused(arguments: tuple[Argument, ...], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        plan_of("scale", Signature(arguments=arguments).writing(["y"]))


def test_a_row_major_array_fits_rows_that_may_be_padded_and_single_rows() -> None:
    padded, single = replace(MATRIX, strides=("s", 1)), replace(MATRIX, name="c", shape=(1, 8), strides=(1, 1))
    plan = plan_of("scale", Signature(arguments=(padded, single, replace(Y, shape=("n", 4, "k")))).writing(["y"]))
    assert plan.shapes([(2, 3), (1, 8)]) == [(3, 4, 2)]


def test_the_kernels_own_constants_are_passed(tmp_path: Path, jax: Any) -> None:
    block = Argument(name="block", kind="const", value=128)
    scale = loader.jax_op(kernel_of(Native(tmp_path), tmp_path, (X, Y, FACTOR, block)))
    traced = str(jax.make_jaxpr(lambda x: scale(x, factor=3.0))(jax.numpy.ones(4, dtype="float32")))
    assert "('block', np.int64(128))" in traced and "('factor', np.float32(3.0))" in traced


def test_numbers_stand_where_the_kernel_takes_them() -> None:
    block = Argument(name="block", kind="const", value=128)
    plan = plan_of("scale", Signature(arguments=(FACTOR, X, W, block, Y)).writing(["y"]))
    assert plan.order == ("attrs.factor", "args", "attrs.block", "rets")

"""Kernels as JAX functions on a device: right inside jit and scan, under a gradient, and in an exported program."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from precast import loader

CLOSE = {"float32": 1e-5, "bfloat16": 1.6e-2, "float16": 2e-3}
EPS = 1e-6


@pytest.fixture(scope="module")
def jax() -> Any:
    pytest.importorskip("jax_tvm_ffi", reason="the kit lacks jax-tvm-ffi")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch's tests use this GPU at the same time
    import jax

    try:
        jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"JAX has no GPU: {error}")
    return jax


def random(jax: Any, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return jax.random.normal(jax.random.key(seed), shape, jax.numpy.dtype(dtype))


def normed(jax: Any, x: Any, weight: Any) -> Any:
    wide = x.astype("float32")
    rows = wide * jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + EPS)
    return (rows * weight.astype("float32")).astype(x.dtype)


def assert_close(jax: Any, value: Any, expected: Any, dtype: str) -> None:
    wide, right = value.astype("float32"), expected.astype("float32")
    assert bool(jax.numpy.allclose(wide, right, rtol=CLOSE[dtype], atol=CLOSE[dtype])), abs(wide - right).max()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_scale(jax: Any, dtype: str, size: int) -> None:
    scale, x = loader.jax_op(loader.get("scale", {"dtype": dtype})), random(jax, (size,), dtype)
    doubled = partial(scale, factor=2.0)
    for function in (doubled, jax.jit(doubled)):
        assert_close(jax, function(x), 2 * x, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "hidden"), [(1, 128), (17, 4096), (4096, 8192)])
def test_rmsnorm(jax: Any, dtype: str, rows: int, hidden: int) -> None:
    norm = loader.jax_op(loader.get("rmsnorm", {"dtype": dtype, "hidden": hidden}))
    x, weight = random(jax, (rows, hidden), dtype), random(jax, (hidden,), dtype, seed=1)
    value = jax.jit(lambda x, weight: norm(x, weight, eps=EPS))(x, weight)
    assert_close(jax, value, normed(jax, x, weight), dtype)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 512, 256), (300, 4096, 1024), (4096, 4096, 4096)])
def test_weights_as_jax_keeps_them(jax: Any, m: int, n: int, k: int) -> None:
    config = {"dtype": "bfloat16", "out_dtype": "bfloat16", "b_major": "n"}
    product = loader.jax_op(loader.get("gemm", config, problem={"m": m, "n": n, "k": k}))
    a, b = random(jax, (m, k), "bfloat16"), random(jax, (k, n), "bfloat16", seed=1) * k**-0.5
    assert_close(jax, jax.jit(product)(a, b), jax.jit(jax.numpy.matmul)(a, b), "bfloat16")


def test_in_a_scan(jax: Any) -> None:
    """XLA may put the launches of a loop into a CUDA graph."""
    norm = loader.jax_op(loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": 4096}))
    x, weights = random(jax, (64, 4096), "bfloat16"), random(jax, (20, 4096), "bfloat16", seed=1)

    def layers(apply: Any) -> Any:
        return jax.jit(lambda x, w: jax.lax.scan(lambda x, w: (x + apply(x, w), None), x, w)[0])(x, weights)

    value, expected = layers(lambda x, w: norm(x, w, eps=EPS)), layers(lambda x, w: normed(jax, x, w))
    assert bool(abs(value.astype("float32") - expected.astype("float32")).mean() < 2e-2)


def test_under_a_declared_gradient(jax: Any) -> None:
    norm = loader.jax_op(loader.get("rmsnorm", {"dtype": "float32", "hidden": 1024}))
    apply = jax.custom_vjp(lambda x, weight: norm(x, weight, eps=EPS))
    apply.defvjp(
        lambda x, weight: (apply(x, weight), (x, weight)),
        lambda kept, dy: jax.vjp(lambda x, weight: normed(jax, x, weight), *kept)[1](dy),
    )
    x, weight = random(jax, (32, 1024), "float32"), random(jax, (1024,), "float32", seed=1)

    def gradient(function: Any) -> Any:
        return jax.jit(jax.grad(lambda weight: (function(x, weight) ** 2).sum()))(weight)

    expected = gradient(lambda x, weight: normed(jax, x, weight))
    assert bool(jax.numpy.allclose(gradient(apply), expected, rtol=1e-4, atol=1e-3))


def test_an_exported_program_gives_the_same_bits_in_another_process(jax: Any, tmp_path: Path) -> None:
    """That process makes the same function first, and has neither the trace nor this one's memory."""
    norm = loader.jax_op(loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": 4096}))
    x, weight = random(jax, (64, 4096), "bfloat16"), random(jax, (4096,), "bfloat16", seed=1)
    program = jax.jit(lambda x, weight: x + norm(x, weight, eps=EPS))
    import jax.export as export

    allowed = [export.DisabledSafetyCheck.custom_call(norm.target)]
    exported = export.export(program, platforms=["cuda"], disabled_checks=allowed)(x, weight)
    (tmp_path / "program").write_bytes(exported.serialize())
    for name, array in (("x", x), ("weight", weight), ("y", program(x, weight))):
        (tmp_path / name).write_bytes(array.tobytes())
    script = """
import pathlib, sys, jax, jax.export, numpy
from precast import loader
folder = pathlib.Path(sys.argv[1])
loader.jax_op(loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": 4096}))
read = lambda name, *shape: numpy.frombuffer((folder / name).read_bytes(), jax.numpy.bfloat16).reshape(shape)
program = jax.export.deserialize(bytearray((folder / "program").read_bytes()))
y = program.call(read("x", 64, 4096), read("weight", 4096))
print("equal" if y.tobytes() == (folder / "y").read_bytes() else "different")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["equal"], done.stderr

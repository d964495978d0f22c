"""Kernels inside ``jax.jit`` beside XLA's own: ``python benchmarks/jax_ops.py [--json FILE]``.

A step of a chain inside one jitted function, in microseconds: median of rounds in which precast's and XLA's follow each
other. XLA may not fuse one step with the next. Each result is compared with XLA's in float32 first. It needs a GPU, jax
with CUDA, jax-tvm-ffi, and caches of ``manifests/default.yaml`` and ``tests/gpu/jax.yaml``; no compiler. Exit status 1:
a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from precast import loader

STEPS, ROUNDS, EPS, HIDDEN = 20, 30, 1e-6, 4096
Step = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Microseconds a step, and the median of XLA's time over precast's in the same round."""

    name: str
    precast: float
    xla: float
    ratio: float


def cases() -> Iterator[tuple[str, Any, Step, Step]]:
    """Name, first value, precast's step and XLA's."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (1 << 25,), jnp.bfloat16)
    scale = loader.jax_op(loader.get("scale", {"dtype": "bfloat16"}))
    yield "scale, 33,554,432 elements", x, lambda x: scale(x, factor=-1.0), lambda x: x * jnp.bfloat16(-1)
    norm = loader.jax_op(loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": HIDDEN}))
    weight = 1 + jax.random.normal(keys[1], (HIDDEN,), jnp.bfloat16) / 8
    for rows in (16, 8192):
        x = jax.random.normal(keys[0], (rows, HIDDEN), jnp.bfloat16)
        name = f"rmsnorm, {rows} x {HIDDEN}"
        yield name, x, lambda x: norm(x, weight, eps=EPS), lambda x: normed(x, weight)
    yield f"x + {name}", x, lambda x: x + norm(x, weight, eps=EPS), lambda x: x + normed(x, weight)
    b = jax.random.normal(keys[2], (HIDDEN, HIDDEN), jnp.bfloat16) * HIDDEN**-0.5
    for m in (16, 4096):
        config = {"dtype": "bfloat16", "out_dtype": "bfloat16", "b_major": "n"}
        product = loader.jax_op(loader.get("gemm", config, problem={"m": m, "n": HIDDEN, "k": HIDDEN}))
        x = jax.random.normal(keys[0], (m, HIDDEN), jnp.bfloat16)
        yield f"gemm, m = {m}, n = k = {HIDDEN}", x, lambda x, product=product: product(x, b), lambda x: x @ b


def normed(x: Any, weight: Any) -> Any:
    """RMSNorm as one writes it in JAX."""
    wide = x.astype(jnp.float32)
    rows = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPS)
    return (rows * weight.astype(jnp.float32)).astype(x.dtype)


def right(x: Any, ours: Step, theirs: Step) -> bool:
    """Whether a step gives what XLA's does, within steps of bfloat16."""
    one, other = jax.jit(ours)(x).astype(jnp.float32), jax.jit(theirs)(x).astype(jnp.float32)
    return bool(jnp.allclose(one, other, rtol=1.6e-2, atol=1.6e-2))


def timed(name: str, x: Any, ours: Step, theirs: Step) -> Timed:
    """The times of both in turns."""

    def chain(step: Step) -> Any:
        def steps(x: Any) -> Any:
            for _ in range(STEPS):
                x = jax.lax.optimization_barrier(step(x))
            return x

        function = jax.jit(steps)
        jax.block_until_ready(function(x))
        return function

    def once(function: Any) -> float:
        began = time.perf_counter()
        jax.block_until_ready(function(x))
        return (time.perf_counter() - began) / STEPS * 1e6

    one, other = chain(ours), chain(theirs)
    rounds = [(once(one), once(other)) for _ in range(ROUNDS)]
    precast, xla = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(b / a for a, b in rounds)
    return Timed(name=name, precast=round(precast, 1), xla=round(xla, 1), ratio=round(ratio, 3))


def calls(x: Any, step: Step) -> float:
    """Microseconds of the host for a call of a jitted function with one small kernel."""
    function, count = jax.jit(step), 1000
    took = []
    for _ in range(5):
        jax.block_until_ready(function(x))
        began = time.perf_counter()
        for _ in range(count):
            result = function(x)
        took.append((time.perf_counter() - began) / count * 1e6)
        jax.block_until_ready(result)
    return round(min(took), 1)


def main() -> int:
    """Print a line a case, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    given = parser.parse_args()
    machine = {"gpu": jax.devices()[0].device_kind, "jax": jax.__version__}
    print(*machine.values())
    results, wrong = [], 0
    for name, x, ours, theirs in cases():
        if not right(x, ours, theirs):
            print(f"{name}: wrong")
            wrong += 1
            continue
        results.append(timed(name, x, ours, theirs))
        if "16 x" in name:
            print(f"a call of the host: {calls(x, ours)} us, XLA's own {calls(x, theirs)} us")
        print(f"{name}: precast {results[-1].precast} us, XLA {results[-1].xla} us, ratio {results[-1].ratio}")
    if given.json:
        given.json.write_text(json.dumps({"machine": machine, "results": list(map(asdict, results))}, indent=1) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

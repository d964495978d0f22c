"""A layer in JAX: its norm is a prebuilt kernel, the gradient of the norm is what JAX derives of the same formula.

Run it on a GPU of compute capability 9.0 or 10.0, beside a cache of ``manifests/default.yaml``:

    pip install 'precast-loader[jax]' 'jax[cuda13]' precast_cache_default-*.whl
    python examples/jax_layer.py
"""

import jax
import jax.numpy as jnp

from precast import loader

HIDDEN, EPS = 4096, 1e-6
rmsnorm = loader.jax_op(loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": HIDDEN}))


def formula(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPS)
    return (wide * scale * weight.astype(jnp.float32)).astype(x.dtype)


@jax.custom_vjp
def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return rmsnorm(x, weight, eps=EPS)


norm.defvjp(lambda x, weight: (norm(x, weight), (x, weight)), lambda kept, dy: jax.vjp(formula, *kept)[1](dy))


def loss(x: jax.Array, weight: jax.Array, matrix: jax.Array, apply=norm) -> jax.Array:
    return jnp.mean((apply(x, weight) @ matrix).astype(jnp.float32) ** 2)


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (512, HIDDEN), jnp.bfloat16)
    matrix = jax.random.normal(keys[1], (HIDDEN, 256), jnp.bfloat16) * HIDDEN**-0.5
    weight = jnp.ones(HIDDEN, jnp.bfloat16)
    step = jax.jit(jax.value_and_grad(loss, argnums=1), static_argnames="apply")
    value, gradient = step(x, weight, matrix)
    expected, expected_gradient = step(x, weight, matrix, apply=formula)
    off = jnp.abs(gradient - expected_gradient).max() / jnp.abs(expected_gradient).max()
    print(f"loss {value:.6f} with the kernel, {expected:.6f} without; gradients differ by {off:.1%} of the largest")


if __name__ == "__main__":
    main()

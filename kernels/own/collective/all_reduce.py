"""``all_reduce``: the sum over the GPUs of one host, each of which reads the memory of the others.

It is for the sizes where latency counts: the sums of a few tokens after each layer of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.composition import Ranks, addresses
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.kernels.own.collective.exchange import SIGNAL_BYTES, WORLDS, Exchange
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "world": 3, "shots": 1}, Target.parse("sm_90a"))
    'world is 3: use one of 2, 4, 8'
    """
    return configs.unsupported_dtype(config) or configs.not_among(config, "world", WORLDS)


def exchange_of(config: Config) -> Exchange:
    """How the ranks of a config share the work."""
    vector = 128 // bits(str(config["dtype"]))
    return Exchange(world=configs.integer(config, "world"), shots=configs.integer(config, "shots"), vector=vector)


def problems(config: Config) -> Sequence[Problem]:
    """Nothing, one element, a part of a vector, a few blocks; few enough of these for eight ranks to share a GPU."""
    return [{"n": n} for n in (0, 1, 7, 8, 4099, 40_000)]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """What one rank owns: its vector, its result, its signals."""
    import torch

    dtype, n = str(config["dtype"]), problem["n"]
    signals = exchange_of(config).signal_bytes // SIGNAL_BYTES
    return {
        "x": tensors.normal((n,), dtype, device=device, seed=seed),
        "out": tensors.empty((n,), dtype, device=device),
        "signals": torch.zeros(signals, dtype=torch.int32, device=device),
    }


def exchanged(config: Config, rank: int, owned: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where the ranks have their vectors, results and signals, and which one this is."""
    return {
        "inputs": addresses(owned, "x"),
        "outs": addresses(owned, "out") if config["shots"] == 2 else None,
        "signals": addresses(owned, "signals"),
        "rank": rank,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum in float32, in the order of the ranks: the same for each of them."""
    first, *others = (x.float() for x in inputs["x"])
    return {"out": [sum(others, first)] * (1 + len(others))}


def tolerance(config: Config) -> Tolerance:
    """One rounding to the dtype; none for float32, which is added in the same order."""
    return Tolerance(rtol=0.0, atol=0.0, ulps=0.0 if config["dtype"] == "float32" else 0.5)


def cost(config: Config, problem: Problem) -> Cost:
    """Every rank's input read once and the result written once, by one rank.

    >>> cost({"dtype": "bfloat16", "world": 2}, {"n": 1000})
    Cost(flops=1000, bytes=6000)
    """
    world, n = configs.integer(config, "world"), problem["n"]
    return Cost((world - 1) * n, (world + 1) * n * bits(str(config["dtype"])) // 8)


@kernel(
    op="all_reduce",
    targets=["sm_80+"],
    outputs=["out"],
    workspace=["signals"],
    ranks=Ranks(count=lambda config: configs.integer(config, "world"), exchanged=exchanged),
)
def all_reduce(dtype: DType, world: int, shots: Literal[1, 2] = 1) -> Any:
    """The sum of ``x`` over ``world`` GPUs of one host: ``kernel(x=x, out=out, inputs=inputs, outs=None,
    signals=signals, rank=rank)``, on every rank, each with tensors of the same length.

    ``x`` and ``out`` are ``[n]`` of ``dtype``. The tables ``inputs``, ``outs`` and ``signals`` ``[world]`` of int64,
    on the device, have the addresses of what each rank calls ``x``, ``out`` and its signals: memory that all of them
    reach, such as torch's symmetric memory. A rank's signals are ``64 * world`` integers of 32 bits, zeros before the
    first launch, and are zeros again after each: pass the same ones to one launch after another, also of CUDA graphs,
    and never to two at once.

    With one shot each rank reads all inputs, and ``out`` is any other memory: pass None for ``outs``. With two shots
    each rank sums a share, and writes it into everyone's ``out``, which may be ``x``: fewer bytes for long vectors.
    Sums are computed in float32, in the order of the ranks, and rounded once: all ranks have the same bits, with one
    shot or two. Ranks wait for each other, in the kernel: one that does not launch it leaves the others waiting. When
    it is done, no rank reads ``x`` any more.
    """
    from precast.kernels.own.collective.device.all_reduce import compile_all_reduce

    config: Config = {"dtype": dtype, "world": world, "shots": shots}
    return compile_all_reduce(exchange_of(config), to_cutlass(dtype))

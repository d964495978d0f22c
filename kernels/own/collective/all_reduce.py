"""``all_reduce``: the sum over the GPUs of one host, each of which reads the memory of the others.

It is for the sizes where latency counts: what a few tokens leave behind each layer of a model.
"""

from __future__ import annotations

from typing import Any, Literal

from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import Cost, Problem, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.kernels.own.collective.exchange import WORLDS, Exchange
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


def cost(config: Config, problem: Problem) -> Cost:
    """Every rank's input read once and the result written once, by one rank.

    >>> cost({"dtype": "bfloat16", "world": 2}, {"n": 1000})
    Cost(flops=1000, bytes=6000)
    """
    world, n = configs.integer(config, "world"), problem["n"]
    return Cost((world - 1) * n, (world + 1) * n * bits(str(config["dtype"])) // 8)


@kernel(op="all_reduce", targets=["sm_80+"], supports=supports, outputs=["out"], workspace=["signals"], cost=cost)
def all_reduce(dtype: DType, world: int, shots: Literal[1, 2] = 1) -> Any:
    """The sum of ``x`` over ``world`` GPUs of one host: ``kernel(x=x, out=out, inputs=inputs, outs=None,
    signals=signals, rank=rank)``, on every rank, each with tensors of the same length.

    ``x`` and ``out`` are ``[n]`` of ``dtype``. The tables ``inputs``, ``outs`` and ``signals`` ``[world]`` of int64,
    on the device, have the addresses of what each rank calls ``x``, ``out`` and its signals: memory that all of them
    reach, such as torch's symmetric memory. A rank's signals are ``64 * world`` integers of 32 bits, zeros before the
    first launch, and zeros again behind each: pass the same ones to one launch after another, also of CUDA graphs, and
    never to two at once.

    With one shot each rank reads all inputs, and ``out`` is any other memory: pass None for ``outs``. With two shots
    each rank sums a share, and writes it into everyone's ``out``, which may be ``x``: fewer bytes for long vectors.
    Sums are computed in float32, in the order of the ranks, and rounded once: all ranks have the same bits, with one
    shot or two. Ranks wait for each other, in the kernel: one that does not launch it leaves the others waiting. When
    it is done, no rank reads ``x`` any more.
    """
    from precast.kernels.own.collective.device.all_reduce import compile_all_reduce

    config: Config = {"dtype": dtype, "world": world, "shots": shots}
    return compile_all_reduce(exchange_of(config), to_cutlass(dtype))

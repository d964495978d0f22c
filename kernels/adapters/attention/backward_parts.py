"""The parts of ``attention_bwd``, each with inputs of its own and the reference that its definition gives.

Sequences have as many keys as queries. What a part leaves alone keeps the number that it was given (``_UNTOUCHED``).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from precast.kernels.adapters.attention import cases
from precast.kernels.adapters.attention.accumulators import packed, unpacked
from precast.kernels.adapters.attention.blocks import KEYS, Blocks
from precast.kernels.adapters.attention.sequences import Sequences
from precast.kernels.adapters.attention.weights import Weights
from precast.kernels.authoring import tensors
from precast.kernels.authoring.composition.part import Part
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_UNTOUCHED = 7.0
_SMALL = 0.125  # gradients of outputs: those of queries, keys and values are then of one size
_SHAPES = ((1, 1, 1), (2, 37, 1), (1, 67, 1), (2, 113, 1), (3, 300, 1), (2, 2048, 2))


def part(name: str, config: Config, target: Target) -> Part | None:
    """How a part is verified; None where the order of its accumulators is not known: of blocks of 80 queries."""
    makers: dict[str, type[_Maker]] = {"prepare": _Prepare, "main": _Main, "dq": _Convert, "dkv": _ConvertKeys}
    blocks = Blocks.of(config, target.major)
    if name not in makers or blocks.queries % 64:
        return None
    return makers[name](blocks).part(config)


@dataclass(frozen=True, slots=True)
class _Maker(ABC):
    """Makes a part for some blocks."""

    blocks: Blocks

    @property
    def rounded(self) -> int:
        """What sequences are rounded up to."""
        return self.blocks.queries

    @abstractmethod
    def part(self, config: Config) -> Part:
        """How it is verified."""

    def sequences(self, config: Config, problem: Problem) -> Sequences:
        """The sequences of a problem: of one length in a batch, of falling lengths where they are packed."""
        varlen, longest = config["layout"] == "varlen", problem["tokens"]
        lengths = [max(1, longest - i * (longest // 3)) if varlen else longest for i in range(problem["batch"])]
        return Sequences(lengths=lengths, packed=varlen, block=self.rounded)

    def again(self, config: Config, values: Mapping[str, Any]) -> Sequences:
        """The sequences of a problem's inputs."""
        return Sequences(lengths=values["lengths"], packed=config["layout"] == "varlen", block=self.rounded)

    def problems(self) -> list[Problem]:
        """One token, parts of a block, few since an emulation takes no more, several blocks; a model's size last."""
        return [{"batch": batch, "tokens": tokens, "kv_heads": heads} for batch, tokens, heads in _SHAPES]


class _Prepare(_Maker):
    """Sums of ``out * dout``, logarithms to base 2, and accumulators of zeros."""

    def part(self, config: Config) -> Part:
        written = ("dpsum", "lse_log2", "accum")
        return Part(
            problems=self.problems(),
            inputs=self.inputs,
            outputs=written,
            in_place=written,
            reference=self.reference,
            tolerance=lambda config: Tolerance(rtol=2.0**-20, atol=2.0**-18),
        )

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        import torch

        group, size, _ = cases.sizes(config)
        heads, some = group * problem["kv_heads"], self.sequences(config, problem)
        like = functools.partial(tensors.normal, (*some.tokens, heads, size), str(config["dtype"]), device=device)

        def kept(width: int) -> Any:
            return torch.full(some.shape(heads, width), _UNTOUCHED, device=device)

        return {
            "out": like(seed=seed),
            "dout": like(seed=seed + 1),
            "dpsum": kept(1),
            "lse": tensors.normal((*some.tokens[:-1], heads, some.tokens[-1]), "float32", device=device, seed=seed + 2),
            "lse_log2": kept(1),
            "accum": kept(size),
            "cu_seqlens_q": some.offsets(device),
            "softmax_scale": size**-0.5,
            "lengths": tuple(some.lengths),
        }

    def reference(self, config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        size, some = cases.sizes(config)[1], self.again(config, values)
        results = {name: values[name].double() for name in ("dpsum", "lse_log2", "accum")}
        for i, length in enumerate(some.lengths):
            out, dout = (some.of_tokens(values[name], i).double() for name in ("out", "dout"))
            some.kept(results["accum"], i, size).zero_()
            sums, logs = some.kept(results["dpsum"], i), some.kept(results["lse_log2"], i)
            sums.zero_()[:, :length] = (out * dout).sum(-1).T
            logs.fill_(math.inf)[:, :length] = some.by_head(values["lse"], i).double() * math.log2(math.e)
        return results


class _Convert(_Maker):
    """An accumulator of queries, times a number, as rows of the dtype of the inputs."""

    def part(self, config: Config) -> Part:
        return Part(
            problems=self.problems(),
            inputs=self.inputs,
            outputs=("dq",),
            reference=self.reference,
            tolerance=lambda config: Tolerance(rtol=0.0, atol=0.0, ulps=0.75),
        )

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        size, some = cases.sizes(config)[1], self.sequences(config, problem)
        heads = self.heads(config, problem)
        return {
            "accum": tensors.normal(some.shape(heads, size), "float32", device=device, seed=seed),
            "dq": tensors.empty((*some.tokens, heads, size), str(config["dtype"]), device=device),
            "scale": size**-0.5,
            "cu_seqlens_q": some.offsets(device),
            "lengths": tuple(some.lengths),
        }

    def reference(self, config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        size, some = cases.sizes(config)[1], self.again(config, values)
        dq = torch.zeros_like(values["dq"], dtype=torch.float64)
        for i, length in enumerate(some.lengths):
            rows = self.rows(some.kept(values["accum"], i, size).double(), size)
            some.of_tokens(dq, i).copy_(rows[:, :length].transpose(0, 1) * values["scale"])
        return {"dq": dq}

    def heads(self, config: Config, problem: Problem) -> int:
        """How many heads a problem has."""
        return problem["kv_heads"] * cases.sizes(config)[0]

    def rows(self, accumulator: Any, size: int) -> Any:
        """The rows of an accumulator."""
        return unpacked(accumulator, self.blocks.queries_order, self.blocks.queries, size)


class _ConvertKeys(_Convert):
    """The same with an accumulator of keys, or values."""

    @property
    def rounded(self) -> int:
        return self.blocks.keys

    def heads(self, config: Config, problem: Problem) -> int:
        return problem["kv_heads"]

    def rows(self, accumulator: Any, size: int) -> Any:
        return unpacked(accumulator, self.blocks.keys_order, KEYS, size)


class _Main(_Maker):
    """The products: accumulators of ``dq``, and ``dk`` and ``dv``, or accumulators of these."""

    def part(self, config: Config) -> Part:
        turns = ("dq_turns", "dk_turns", "dv_turns")
        return Part(
            problems=self.problems(),
            inputs=self.inputs,
            outputs=("accum", "dk", "dv", *turns),
            in_place=("accum", "dk", "dv", *turns),
            reference=self.reference,
            tolerance=self.tolerance,
            deterministic=bool(config["deterministic"]),
        )

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        import torch

        group, size, _ = cases.sizes(config)
        shared, dtype = problem["kv_heads"], str(config["dtype"])
        some = self.sequences(config, problem)
        keys = replace(some, block=self.blocks.keys)

        def make(heads: int, number: int) -> Any:
            return tensors.normal((*some.tokens, heads, size), dtype, device=device, seed=seed + number)

        def result() -> Any:
            if group > 1:
                return torch.zeros(keys.shape(shared, size), device=device)
            return torch.full((*some.tokens, shared, size), _UNTOUCHED, dtype=getattr(torch, dtype), device=device)

        def turns(heads: int, these: Sequences, block: int, last: int) -> Any:
            blocks = max(these.rounded) // block
            return torch.zeros((len(these.lengths), heads, blocks, last), dtype=torch.int32, device=device)

        fixed, many = bool(config["deterministic"]), bool(config["deterministic"]) and group > 1
        heads = group * shared
        values = {
            "q": make(heads, 0),
            "k": make(shared, 1),
            "v": make(shared, 2),
            "dout": make(heads, 3).mul_(_SMALL),
            "lse": torch.full(some.shape(heads), math.inf, device=device),
            "dpsum": torch.zeros(some.shape(heads), device=device),
            "accum": torch.zeros(some.shape(heads, size), device=device),
            "dk": result(),
            "dv": result(),
            "softmax_scale": size**-0.5,
            "cu_seqlens_q": some.offsets(device),
            "cu_seqlens_k": some.offsets(device),
            "dq_turns": turns(heads, some, some.block, 1 + bool(config["two_cta"])) if fixed else None,
            "dk_turns": turns(shared, keys, KEYS, 2) if many else None,
            "dv_turns": turns(shared, keys, KEYS, 2) if many else None,
            "lengths": tuple(some.lengths),
        }
        for i, length in enumerate(some.lengths):
            forward = self._forward(config, values, some, i)
            some.kept(values["lse"], i)[:, :length] = forward.logs * math.log2(math.e)
            some.kept(values["dpsum"], i)[:, :length] = (forward.out * forward.dout).sum(-1)
        return values

    def tolerance(self, config: Config) -> Tolerance:
        """Weights and the gradients of scores are rounded to the dtype before they are multiplied and added up: over
        more queries where key heads are shared, and then ``dk`` is not scaled yet."""
        return Tolerance(rtol=2.0**-6, atol=2.0**-7 if cases.sizes(config)[0] == 1 else 1.5 * 2.0**-6)

    def _forward(self, config: Config, values: Mapping[str, Any], some: Sequences, number: int) -> Weights:
        group = cases.sizes(config)[0]
        q, k, v, dout = (
            some.of_tokens(values[name], number).double().transpose(0, 1) for name in ("q", "k", "v", "dout")
        )
        k, v = (t.repeat_interleave(group, dim=0) for t in (k, v))
        return Weights.of(q, k, v, dout, values["softmax_scale"], bool(config["causal"]))

    def reference(self, config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        group, size, _ = cases.sizes(config)
        blocks, some = self.blocks, self.again(config, values)
        keys = replace(some, block=blocks.keys)
        names = ("accum", "dk", "dv", "dq_turns", "dk_turns", "dv_turns")
        results: dict[str, Any] = {n: None if values[n] is None else values[n].double() for n in names}

        def whole(gradient: Any, rounded: int) -> Any:
            rows = gradient.new_zeros((len(gradient), rounded, size))
            rows[:, : gradient.shape[1]] = gradient
            return rows

        for i, length in enumerate(some.lengths):
            forward = self._forward(config, values, some, i)
            of_queries = whole(forward.scores @ forward.k, some.rounded[i])
            some.kept(results["accum"], i, size).copy_(packed(of_queries, blocks.queries_order, blocks.queries))
            gradients = {
                "dk": forward.scores.transpose(1, 2) @ forward.q,
                "dv": forward.weights.transpose(1, 2) @ forward.dout,
            }
            for name, gradient in gradients.items():
                summed = gradient.unflatten(0, (-1, group)).sum(1)
                if group > 1:
                    of_keys = packed(whole(summed, keys.rounded[i]), blocks.keys_order, KEYS)
                    keys.kept(results[name], i, size).copy_(of_keys)
                else:
                    scale = values["softmax_scale"] if name == "dk" else 1.0
                    some.of_tokens(results[name], i).copy_(summed.transpose(0, 1) * scale)
            if results["dq_turns"] is not None:
                turns = torch.tensor(blocks.turns(length, causal=bool(config["causal"])))
                results["dq_turns"][i, :, : len(turns)] = turns.unsqueeze(1)
            for name in ("dk_turns", "dv_turns"):
                if results[name] is not None:  # on sm_90a, one warp group stores for both
                    results[name][i, :, : keys.rounded[i] // KEYS, : 1 if blocks.keys_order == "wgmma" else 2] = group
        return results

"""``flashinfer.mamba2_ssd``: Mamba-2's recurrence over a prompt, in chunks of 128 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_HEADS, _GROUPS = 4, 2
_LENGTHS = {1: (200, 184), 2: (128, 256), 3: (384,)}  # of sequences behind one another, in three chunks


def part(config: Config, target: Target) -> Part | None:
    """Some heads of two groups; None for what the manifests do not have."""
    if config["has_z"] or config["d_has_hdim"] or not config["has_d"] or config["backend"] != "cute":
        return None
    cases = [{"lengths": number} for number in _LENGTHS] if config["has_varlen"] else [{"chunks": 1}, {"chunks": 3}]
    return Part(
        problems=cases,
        inputs=inputs,
        outputs=("y", "fstate"),
        reference=reference,
        tolerance=tolerance,
    )


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Steps and decays as a model has them; sequences that begin inside of a chunk, too."""
    import torch

    size, width, states = (configs.integer(config, name) for name in ("chunk_size", "headdim", "dstate"))
    lengths = _LENGTHS[problem["lengths"]] if config["has_varlen"] else (size * problem["chunks"],)
    chunks = sum(lengths) // size
    draw = torch.Generator(device="cpu").manual_seed(seed)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=draw).to(torch.bfloat16)

    steps = (torch.rand(1, _HEADS, chunks, size, generator=draw) * 0.1).to(torch.bfloat16)
    decays = steps.float() * -(torch.rand(1, _HEADS, 1, 1, generator=draw) + 0.1)
    values = {
        "x": normal(1, chunks, size, _HEADS, width).permute(4, 2, 1, 3, 0),
        "cumsum_delta": decays.cumsum(dim=-1).permute(3, 2, 1, 0),
        "delta": steps.permute(3, 2, 1, 0),
        "b": normal(1, chunks, size, _GROUPS, states).permute(2, 4, 1, 3, 0),
        "c": normal(1, chunks, size, _GROUPS, states).permute(2, 4, 1, 3, 0),
        "y": normal(1, _HEADS, width, chunks, size).permute(4, 2, 3, 1, 0),
        "fstate": normal(len(lengths), _HEADS, width, states).permute(3, 2, 1, 0),
        "d": normal(_HEADS, 1).t(),
    }
    if config["has_initial_states"]:
        values["init_states"] = normal(len(lengths), _HEADS, width, states).permute(3, 2, 1, 0)
    values |= _sequences(lengths, size) if config["has_varlen"] else {}
    placed = {name: value.to(device) for name, value in values.items()}
    counts = {"num_logical_chunks": chunks, "num_seqs": 0}
    if config["has_varlen"]:
        counts = {"num_logical_chunks": len(values["chunk_indices"]), "num_seqs": len(lengths)}
    return {**placed, **counts}


def _sequences(lengths: tuple[int, ...], size: int) -> dict[str, Any]:
    """Which sequence each token is of, and the pieces of chunks: where they are, and how many each sequence has."""
    import torch

    pieces: list[tuple[int, int]] = []
    ends, at = [0], 0
    for length in lengths:
        end = at + length
        starts = [at, *range((at // size + 1) * size, end, size)]
        pieces += [divmod(start, size) for start in starts]
        ends.append(len(pieces))
        at = end
    order = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return {
        "seq_idx": order.unsqueeze(0),
        "chunk_indices": torch.tensor([chunk for chunk, _ in pieces], dtype=torch.int32),
        "chunk_offsets": torch.tensor([offset for _, offset in pieces], dtype=torch.int32),
        "seq_chunk_cumsum": torch.tensor(ends, dtype=torch.int32),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Token after token in float64: the state decays, and a step of ``x`` times ``b`` is added; ``c`` reads it."""
    import torch

    def tokens(name: str) -> Any:  # [tokens, heads or groups, width]
        return values[name][..., 0].double().permute(2, 0, 3, 1).flatten(0, 1)

    def groups(name: str) -> Any:
        return tokens(name).repeat_interleave(_HEADS // _GROUPS, dim=1)

    x, b, c = values["x"][..., 0].double().permute(2, 1, 3, 0).flatten(0, 1), groups("b"), groups("c")
    sums = values["cumsum_delta"][..., 0].double()
    decays = torch.cat([sums[:1], sums.diff(dim=0)]).transpose(0, 1).flatten(0, 1).exp()
    steps = values["delta"][..., 0].double().transpose(0, 1).flatten(0, 1)
    order = values["seq_idx"][0].tolist() if config["has_varlen"] else [0] * len(x)
    first = values.get("init_states")
    final = torch.zeros_like(values["fstate"], dtype=torch.float64)
    rows = []
    state: Any = None
    for number, sequence in enumerate(order):
        if number == 0 or sequence != order[number - 1]:
            state = torch.zeros_like(final[..., 0]) if first is None else first[..., sequence].double()
        added = torch.einsum("hd,hn->ndh", x[number] * steps[number].unsqueeze(-1), b[number])
        state = state * decays[number] + added
        rows.append(torch.einsum("ndh,hn->hd", state, c[number]) + values["d"][0].double().unsqueeze(-1) * x[number])
        final[..., sequence] = state
    y = torch.stack(rows).unflatten(0, (-1, values["y"].shape[0])).permute(1, 3, 0, 2).unsqueeze(-1)
    return {"y": y, "fstate": final}


def tolerance(config: Config) -> Tolerance:
    """Sums of a state of 128, of products and states in bfloat16."""
    return Tolerance(rtol=2.0**-6, atol=2.0**-4)

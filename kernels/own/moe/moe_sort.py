"""``moe_sort``: the entries of a router, one for each token and choice, sorted by expert.

What is found is what ``moe_permute`` and ``moe_finalize`` move rows by, and what a grouped product needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Cost, Problem, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.moe import routing
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_CLUSTERS = (1, 2, 4, 8, 16)
_PORTABLE = 8  # blocks of a cluster that every GPU with clusters runs
_MOST = 1024  # experts: one for each thread


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"experts": 2048, "align": 1, "layout": "contiguous", "index_dtype": "int32", "cluster": 8}
    >>> supports(config, Target.parse("sm_90a"))
    'experts is 2048: use 1 to 1024'
    """
    if not 1 <= configs.integer(config, "experts") <= _MOST:
        return f"experts is {config['experts']}: use 1 to {_MOST}"
    if configs.integer(config, "align") < 1:
        return f"align is {config['align']}: use a positive number"
    if config["layout"] == "masked" and config["align"] != 1:
        return f"align is {config['align']}: with layout masked each expert has as many rows; leave it out"
    if config["index_dtype"] not in ("int32", "int64"):
        return f"index_dtype is {config['index_dtype']}: use int32 or int64"
    if configs.integer(config, "cluster") > _PORTABLE and target.major not in (9, 10):
        return f"cluster is {config['cluster']}: {target} has clusters of at most {_PORTABLE} blocks; use 1, 2, 4 or 8"
    return configs.not_among(config, "cluster", _CLUSTERS)


def problems(config: Config) -> Sequence[Problem]:
    """No token, one, about as many entries as a step takes, and many. ``offset`` is the first expert that is here: then
    there is too little room, too."""
    experts = configs.integer(config, "experts")
    cases = [
        (0, 8, 0), (1, 1, 0), (5, 6, 0), (128, 8, 0), (127, 9, experts // 2), (1025, 8, 0), (333, 3, 1), (4099, 8, 3),
        (16384, 8, 0),
    ]  # fmt: skip
    return [{"tokens": tokens, "k": k, "offset": offset} for tokens, k, offset in cases]


def _capacity(config: Config, problem: Problem) -> int:
    """How many rows a problem has room for: all that there can be, but where it is about too little room."""
    experts, entries = configs.integer(config, "experts"), problem["tokens"] * problem["k"]
    tight = problem.get("offset", 0) > 0
    if config["layout"] == "masked":
        return experts * max(1, entries // experts if tight else problem["tokens"])
    return entries // 3 if tight else entries + experts * (configs.integer(config, "align") - 1)


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name. Entries are of this rank's experts, and of some after these."""
    tokens, k, experts = problem["tokens"], problem["k"], configs.integer(config, "experts")
    ids = routing.routes(tokens, k, experts, device=device, seed=seed)

    def empty(*shape: int) -> Any:
        return tensors.empty(shape, "int32", device=device)

    return {
        "topk_ids": ids.to(to_torch(str(config["index_dtype"]))),
        "counts": empty(experts),
        "offsets": empty(experts + 1),
        "sources": empty(_capacity(config, problem)),
        "rows": empty(tokens, k),
        "first": problem.get("offset", 0),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A stable sort in torch."""
    routes = routing.sort(
        inputs["topk_ids"],
        inputs["first"],
        experts=configs.integer(config, "experts"),
        align=configs.integer(config, "align"),
        masked=config["layout"] == "masked",
        capacity=len(inputs["sources"]),
    )
    return {"counts": routes.counts, "offsets": routes.offsets, "sources": routes.sources, "rows": routes.rows}


def cost(config: Config, problem: Problem) -> Cost:
    """No operations; each entry read once, and its row and the row's source written.

    >>> cost({"experts": 8, "index_dtype": "int32"}, {"tokens": 10, "k": 2})
    Cost(flops=0, bytes=308)
    """
    entries, experts = problem["tokens"] * problem["k"], configs.integer(config, "experts")
    return Cost(0, entries * (bits(str(config["index_dtype"])) // 8 + 8) + 4 * (2 * experts + 1))


@kernel(op="moe_sort", targets=["sm_90+"], outputs=["counts", "offsets", "sources", "rows"], special_values=[])
def moe_sort(
    experts: int,
    align: int = 1,
    layout: Literal["contiguous", "masked"] = "contiguous",
    index_dtype: DType = "int32",
    cluster: Tuned[int] = 8,
) -> Any:
    """``moe_sort(topk_ids, counts, offsets, sources, rows, first)``: entries sorted by expert, in their order.

    ``topk_ids`` ``[tokens, k]`` of ``index_dtype`` names experts. Those from ``first`` to ``first + experts`` are here;
    an entry of any other is dropped, as where each GPU has a part of the experts. What is written is int32:

    - ``counts`` ``[experts]``: the rows of each expert.
    - ``offsets`` ``[experts + 1]``: where its rows begin. In the ``contiguous`` layout each begins at the next
      multiple of ``align`` after the one before; in the ``masked`` one each has the same part of all rows.
    - ``sources`` ``[room]``: the entry, ``token * k + choice``, of each row; -1 where a row has none. Its size is the
      number of rows that there is room for: a multiple of ``experts`` in the masked layout.
    - ``rows`` ``[tokens, k]``: the row of each entry; -1 where it was dropped, or there is no room.

    One cluster of blocks does it in one launch; the result is always the same. A larger cluster is for more entries.
    """
    from precast.kernels.own.moe.device.moe_sort import compile_moe_sort

    return compile_moe_sort(to_cutlass(index_dtype), experts, align, layout == "masked", cluster)

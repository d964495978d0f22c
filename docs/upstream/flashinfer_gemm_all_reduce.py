"""The kernel of flashinfer-gemm-all-reduce.md: a product of matrices that two GPUs sum while they store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.kernels.authoring.composition import Multicast
from precast.kernels.authoring.declare import Problem, kernel
from precast.loader.contract.format.config import Config

_RANKS, _TILE, _SMS = 2, 128, 148


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """One tile of small integers; the other rank has its product already, and has said so."""
    import torch

    draw = torch.Generator().manual_seed(seed)

    def integers(*shape: int, most: int) -> Any:
        return torch.randint(-most, most + 1, shape, generator=draw).bfloat16()

    return {
        "a": integers(_TILE, problem["k"], 1, most=1),
        "b": integers(_TILE, problem["k"], 1, most=1),
        "products": integers(_RANKS, _TILE, _TILE, 1, most=9),
        "flags": torch.full((_RANKS, 1 + _SMS), _RANKS - 1, dtype=torch.int32),
    }


def passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The memory of rank 0, and the addresses of everyone's."""
    return {
        "c": values["products"][0],
        "c_mc": Multicast(values["products"]),
        "barrier_flag": values["flags"][0],
        "barrier_flag_mc": Multicast(values["flags"]),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The product, in whose first half both ranks have the sum; each flag of rank 0 is put back."""
    products, flags = values["products"].float(), values["flags"].clone()
    products[0, :, :, 0] = values["a"][:, :, 0].float() @ values["b"][:, :, 0].float().T
    half = products[:, : _TILE // _RANKS]
    half.copy_(half.sum(dim=0, keepdim=True).expand(half.shape).clone())
    flags[:, :2] += 1  # of the tile, and of its block, which is done
    flags[0, :2] = 0
    return {"products": products, "flags": flags}


@kernel(
    op="upstream.gemm_all_reduce",
    targets=["sm_100a"],
    problems=lambda config: [{"k": 64}],
    inputs=inputs,
    passes=passes,
    outputs=["products", "flags"],
    in_place=["products", "flags"],
    reference=reference,
    special_values=[],
)
def gemm_all_reduce() -> Any:
    """Rank 0 of two, bfloat16."""
    import cutlass
    import cutlass.cute as cute
    import torch.distributed
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
    from flashinfer.cute_dsl.gemm_allreduce_two_shot import PersistentDenseGemmKernel
    from flashinfer.cute_dsl.utils import get_max_active_clusters
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=_RANKS)
    product = PersistentDenseGemmKernel(cutlass.Float32, False, (_TILE, _TILE), (1, 1), True, all_reduce="two_shot")
    torch.distributed.destroy_process_group()

    def matrix() -> Any:
        row = cute.sym_int64(divisibility=8)
        shape = (cute.sym_int(), cute.sym_int(), 1)
        return make_fake_tensor(cutlass.BFloat16, shape, stride=(row, 1, cute.sym_int64()), assumed_align=16)

    def flags() -> Any:
        return make_fake_tensor(cutlass.Int32, (cute.sym_int(),), stride=(1,), assumed_align=4)

    a, b, out, all_out = (matrix() for _ in range(4))
    return cute.compile(
        product,
        a,
        b,
        out,
        get_max_active_clusters(1),
        make_fake_stream(),
        c_mc=all_out,
        barrier_flag=flags(),
        barrier_flag_mc=flags(),
    )

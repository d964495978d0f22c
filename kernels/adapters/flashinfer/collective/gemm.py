"""A product of matrices, summed over GPUs: each tile as soon as all have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.adapters.flashinfer.collective.protocols import TARGETS, supports
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.composition.addresses import Multicast
from precast.kernels.authoring.declare import Problem, kernel
from precast.kernels.authoring.dtypes import to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config

_GEMM = "flashinfer.cute_dsl.gemm_allreduce_two_shot"


@contextmanager
def _process_group(ranks: int, rank: int) -> Iterator[None]:
    """``torch.distributed`` as one of ``ranks`` processes sees it. torch's fake backend sends nothing to anyone."""
    import torch.distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@contextmanager
def _acquiring() -> Iterator[None]:
    """Let the kernel's waits for flags be followed by a fence, and put the flags back.

    The library waits with a relaxed compare-and-swap, and then reads what other threads stored: nothing orders these.
    At the end it waits for its peers with a compare-and-swap whose values are exchanged: the flag stays as it is.
    """
    import cutlass.cute as cute

    module = library.FLASHINFER.module(_GEMM)
    relaxed, acquire = module.distributed.spin_lock_atom_cas_relaxed_wait, module.spin_lock_atom_cas_acquire_wait

    def wait(flag: Any, *, expected_val: Any, reset_val: Any, scope: str, **_: Any) -> None:
        relaxed(flag, expected_val=expected_val, reset_val=reset_val, scope=scope)
        cute.arch.fence_acq_rel_sys()

    module.distributed.spin_lock_atom_cas_relaxed_wait = module.spin_lock_atom_cas_acquire_wait = wait
    try:
        yield
    finally:
        module.distributed.spin_lock_atom_cas_relaxed_wait = relaxed
        module.spin_lock_atom_cas_acquire_wait = acquire


def problems(config: Config) -> Sequence[Problem]:
    """One tile and some, since whole ones are summed."""
    rows, columns = _tile(config)
    return [{"m": rows * m, "n": columns * n, "k": k} for m, n, k in ((1, 1, 64), (1, 2, 40), (3, 2, 200))]


def _tile(config: Config) -> tuple[int, int]:
    tile: Any = config["tile"]
    return int(tile[0]), int(tile[1])


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Small integers, whose products and sums are exact; the other ranks have their products, and have said so."""
    import torch

    m, n, k = problem["m"], problem["n"], problem["k"]
    ranks, (rows, columns) = configs.integer(config, "ranks"), _tile(config)
    draw = torch.Generator(device="cpu").manual_seed(seed)

    def integers(*shape: int, most: int = 1) -> Any:
        values = torch.randint(-most, most + 1, shape, generator=draw)
        return values.to(to_torch(str(config["dtype"]))).to(device)

    flags = (m // rows) * (n // columns) + tensors.multiprocessors(device)
    return {
        "a": integers(m, k, 1),
        "b": integers(n, k, 1),
        "products": integers(ranks, m, n, 1, most=9),
        "flags": torch.full((ranks, flags), ranks - 1, dtype=torch.int32, device=device),
    }


def passes(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """This rank's product and flags, and the addresses of everyone's."""
    rank = configs.integer(config, "rank")
    return {
        "c": values["products"][rank],
        "c_mc": Multicast(values["products"]),
        "barrier_flag": values["flags"][rank],
        "barrier_flag_mc": Multicast(values["flags"]),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The product, in which this rank's rows of each tile are sums, as in everyone's memory; and the flags."""
    ranks, rank = configs.integer(config, "ranks"), configs.integer(config, "rank")
    rows, columns = _tile(config)
    products, flags = values["products"].float(), values["flags"].clone()
    products[rank, :, :, 0] = values["a"][:, :, 0].float() @ values["b"][:, :, 0].float().T
    m, n = products.shape[1:3]
    share = rows // ranks
    own = products.view(ranks, m // rows, rows, n)[:, :, rank * share : (rank + 1) * share]
    own.copy_(own.sum(dim=0, keepdim=True).expand(own.shape))
    tiles = (m // rows) * (n // columns)
    flags[:, : 2 * tiles] += 1  # of each tile, and of its block, which is done
    flags[rank, : 2 * tiles] = 0
    return {"products": products, "flags": flags}


@kernel(
    op="flashinfer.gemm_all_reduce",
    imports=[_GEMM],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    passes=passes,
    outputs=["products", "flags"],
    in_place=["products", "flags"],
    reference=reference,
    special_values=[],
)
def gemm_all_reduce(
    dtype: DType,
    ranks: int,
    rank: int,
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """A product of matrices, summed over GPUs: each tile as soon as all have it.

    ``a`` is ``[m, k, 1]``, ``b`` ``[n, k, 1]`` and ``c`` ``[m, n, 1]``; ``c_mc`` is the multicast address of ``c`` of
    all GPUs, and the two flags are int32, one for each tile and one more for each multiprocessor.
    """
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

    make = library.FLASHINFER.module(_GEMM).PersistentDenseGemmKernel
    with _process_group(ranks, rank):
        product = make(to_cutlass("float32"), False, tuple(tile), tuple(cluster), True, all_reduce="two_shot")

    def matrix() -> Any:
        row = cute.sym_int64(divisibility=8)
        shape = (cute.sym_int(), cute.sym_int(), 1)
        return make_fake_tensor(to_cutlass(dtype), shape, stride=(row, 1, cute.sym_int64()), assumed_align=16)

    def flags() -> Any:
        return make_fake_tensor(to_cutlass("int32"), (cute.sym_int(),), stride=(1,), assumed_align=4)

    clusters = library.FLASHINFER.module("flashinfer.cute_dsl.utils").get_max_active_clusters(cluster[0] * cluster[1])
    a, b, out, all_out = (matrix() for _ in range(4))
    with _acquiring():
        return cute.compile(
            product,
            a,
            b,
            out,
            clusters,
            make_fake_stream(),
            c_mc=all_out,
            barrier_flag=flags(),
            barrier_flag_mc=flags(),
        )

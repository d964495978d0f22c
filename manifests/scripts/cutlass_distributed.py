"""NVIDIA's examples for several GPUs, each compiled for one of them on a machine that has none.

What they ask of the other GPUs are addresses: of memory that all of them share, and of what reaches all at once. These
are arguments of the compiled kernel, and so may be any while it is compiled. Who of how many GPUs this one is, is
compiled in. The folder of the examples stands in the manifest's ``path``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

_FOLDER = "cute.blackwell.kernel.distributed"


class _Shared:
    """What others have of a tensor of shared memory: a tensor like it each."""

    multicast_ptr = 1 << 20

    def __init__(self, ranks: int) -> None:
        self.buffer_ptrs = [self.multicast_ptr] * ranks

    def get_buffer(self, rank: int, shape: Sequence[int], dtype: Any) -> Any:
        """The tensor of one of them."""
        import torch

        return torch.empty(tuple(shape), dtype=dtype, device="cuda")

    def barrier(self, channel: int = 0) -> None:
        """Nobody is waited for."""


def _nvshmem() -> dict[str, ModuleType]:
    """What the examples use of NVSHMEM's Python package."""
    import torch

    def tensor(shape: Any, dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype, device="cuda")

    package, core = ModuleType("nvshmem"), ModuleType("nvshmem.core")
    parts = {
        "tensor": tensor,
        "get_peer_tensor": lambda one, rank: torch.empty_like(one),
        "get_multicast_tensor": lambda team, one: torch.empty_like(one),
        "free_tensor": lambda one: None,
        "Teams": SimpleNamespace(TEAM_NODE=0),
    }
    vars(core).update(parts)
    vars(package)["core"] = core
    return {"nvshmem": package, "nvshmem.core": core}


@contextmanager
def _one_of(ranks: int, rank: int) -> Iterator[None]:
    """torch.distributed and shared memory as one of several processes sees them."""
    import cuda.pathfinder
    import cutlass.torch
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as shared

    def nothing(*_: Any, **__: Any) -> None:
        pass

    answers: dict[tuple[Any, str], Any] = {
        (dist, "is_initialized"): lambda: True,
        (dist, "get_rank"): lambda *_: rank,
        (dist, "get_world_size"): lambda *_: ranks,
        (dist, "barrier"): nothing,
        (dist, "destroy_process_group"): nothing,
        (shared, "empty"): torch.empty,
        (shared, "rendezvous"): lambda *_, **__: _Shared(ranks),
        (cutlass.torch, "as_tensor"): lambda address, shape, dtype: torch.empty(shape, dtype=dtype, device="cuda"),
        # Some look for NaN in what they draw; these tensors hold nothing.
        (torch, "isnan"): lambda _: SimpleNamespace(any=lambda: False),
        (cuda.pathfinder, "load_nvidia_dynamic_lib"): nothing,
    }
    with ExitStack() as stack:
        stack.enter_context(patch.dict(sys.modules, _nvshmem()))
        for (module, name), answer in answers.items():
            stack.enter_context(patch.object(module, name, answer))
        yield


def all_reduce(example: str, function: str, ranks: int, rank: int, m: int = 1024, n: int = 1024) -> Any:
    """A sum over GPUs of (m, n) numbers of float32."""
    with _one_of(ranks, rank):
        run = getattr(import_module(f"{_FOLDER}.{example}"), function)
        return run((m, n)) if example == "all_reduce_tma" else run(m, n)


def gemm(
    example: str,
    ranks: int,
    rank: int,
    mnkl: Sequence[int] = (4096, 4096, 4096, 1),
    dtype: str = "float16",
    tile: Sequence[int] = (256, 256),
    cluster: Sequence[int] = (2, 1),
) -> Any:
    """A product that is summed over GPUs while it is stored, or of whose sum each keeps a part. All is k-major."""
    import cutlass

    kind: Any = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16}[dtype]
    with _one_of(ranks, rank):
        run = import_module(f"{_FOLDER}.{example}").run_distributed_test
        return run(
            rank, ranks, "cuda", tuple(mnkl), kind, kind, cutlass.Float32, "k", "k", "n", tuple(tile), tuple(cluster)
        )


def blockscaled_gemm(
    ranks: int,
    rank: int,
    mnkl: Sequence[int] = (4096, 4096, 4096, 1),
    tile: Sequence[int] = (128, 128),
    cluster: Sequence[int] = (1, 1),
) -> Any:
    """A product of NVFP4 that is summed over GPUs while it is stored, as float16."""
    import cutlass

    with _one_of(ranks, rank):
        run = import_module(f"{_FOLDER}.distributed_gemm_blockscaled_all_reduce_ldmcxstmc_blackwell")
        four, scale = cutlass.Float4E2M1FN, cutlass.Float8E4M3FN
        return run.run_distributed_test(
            rank, ranks, "cuda", tuple(mnkl), four, four, scale, 16, cutlass.Float16, "k", "k", "n", tuple(tile),
            tuple(cluster),
        )  # fmt: skip

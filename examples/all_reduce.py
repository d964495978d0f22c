"""The sum of a vector over the GPUs of a host, with a kernel from a precast cache beside NCCL's.

    precast build manifests/collective.yaml -t sm_90a -o cache      # where the compiler is; no GPU needed
    PRECAST_CACHE_PATH=cache python examples/all_reduce.py          # on 2 GPUs; needs torch and precast-loader

One process for each GPU, whose vectors are torch's symmetric memory. Each size is summed by NCCL, with one shot and
with two, from a CUDA graph; the sums are compared with those of float32, and the bits with those of the other ranks.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _symmetric_memory as symmetric
from torch.multiprocessing import spawn

from precast import loader

SIZES = tuple(1 << power for power in range(13, 21))  # bytes: 8 KB to 1 MB
SIGNALS = 64  # of each rank, for each rank
LAUNCHES, REPLAYS = 20, 15
DTYPES = ("bfloat16", "float16", "float32")


class Symmetric:
    """A vector that every rank has, and the table of their addresses."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self.tensor = symmetric.empty(size, dtype=dtype, device=device).zero_()
        handle = symmetric.rendezvous(self.tensor, dist.group.WORLD)
        bases = handle.buffer_ptrs
        offset = self.tensor.data_ptr() - bases[handle.rank]  # in what was allocated, the same on every rank
        self.table = torch.tensor([base + offset for base in bases], dtype=torch.int64, device=device)


class AllReduce:
    """Sums the first ``n`` elements of a symmetric vector, by one of the kernels."""

    def __init__(self, shots: int, x: Symmetric, out: Symmetric, signals: Symmetric) -> None:
        config = {"dtype": x.tensor.dtype, "world": dist.get_world_size(), "shots": shots}
        self.kernel = loader.get("all_reduce", config)
        self.x, self.out, self.signals = x, out, signals
        self.outs = out.table if shots == 2 else None

    def __call__(self, n: int) -> torch.Tensor:
        out = self.out.tensor[:n]
        self.kernel(self.x.tensor[:n], out, self.x.table, self.outs, self.signals.table, dist.get_rank())
        return out


def graph_of(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Some launches in a graph."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's own thread goes on asking for events
        for _ in range(LAUNCHES):
            call()
    return graph


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    """The median time of a launch, on the slowest rank."""
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / LAUNCHES)
    slowest = torch.tensor(statistics.median(times), device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return float(slowest)


def errors(found: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[int, int]:
    """How many elements are not the sum in float32, rounded once; and how many differ from the first rank's."""
    total = inputs[0].to(torch.float32, copy=True)
    for x in inputs[1:]:
        total += x.float()
    first = found.clone()
    dist.broadcast(first, 0)
    return int((found != total.to(found.dtype)).sum()), int((found != first).sum())


def work(rank: int, world: int, port: int, dtype_name: str, results: str) -> None:
    """One rank: check and time every size; the first one prints."""
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world,
        device_id=device, timeout=timedelta(seconds=60),
    )  # fmt: skip
    dtype = getattr(torch, dtype_name)
    most = max(SIZES) // dtype.itemsize
    x, out = (Symmetric(most + 7, dtype, device) for _ in range(2))
    signals = Symmetric(SIGNALS * world, torch.int32, device)
    torch.manual_seed(rank)
    x.tensor.copy_(torch.randn(len(x.tensor), device=device))
    inputs = [torch.empty_like(x.tensor) for _ in range(world)]
    dist.all_gather(inputs, x.tensor)
    kernels = {f"{shots} shot{'s' * (shots - 1)}": AllReduce(shots, x, out, signals) for shots in (1, 2)}
    wrong, rows = 0, []
    for n in (0, 1, 7, 1000, most // 2 + 3, most + 7):
        for kernel in kernels.values():
            out.tensor.fill_(float("nan"))
            wrong += sum(errors(kernel(n), [one[:n] for one in inputs]))
    for size in SIZES:
        n = size // dtype.itemsize
        copy = x.tensor[:n].clone()
        row = {"bytes": float(size), "NCCL": microseconds(graph_of(lambda copy=copy: dist.all_reduce(copy)))}
        for name, kernel in kernels.items():
            row[name] = microseconds(graph_of(lambda kernel=kernel, n=n: kernel(n)))
            wrong += sum(errors(out.tensor[:n], [one[:n] for one in inputs]))
        rows.append(row)
        if rank == 0:
            print(
                f"{size:>8} bytes  " + "  ".join(f"{k} {v:.1f} us" for k, v in row.items() if k != "bytes"), flush=True
            )
    total = torch.tensor(wrong, device=device)
    dist.all_reduce(total)
    if rank == 0:
        print(f"{int(total)} wrong elements on {world} ranks", flush=True)
        if results:
            Path(results).write_text(json.dumps({"world": world, "wrong": int(total), "times": rows}, indent=1) + "\n")
    dist.destroy_process_group()
    if int(total):
        sys.exit(1)


def main() -> None:
    """Start the ranks, and end them if they take too long: one that fails leaves the others waiting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=2, help="GPUs: 2, 4 or 8")
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    parser.add_argument("--timeout", type=float, default=75.0, help="seconds")
    parser.add_argument("-o", "--output", default="", help="a file for the times, as JSON")
    options = parser.parse_args()
    if torch.cuda.device_count() < options.world:
        sys.exit(f"this machine has {torch.cuda.device_count()} GPUs: {options.world} are needed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = spawn(work, (options.world, port, options.dtype, options.output), nprocs=options.world, join=False)
    end = time.monotonic() + options.timeout
    while not ranks.join(timeout=max(0.0, end - time.monotonic())):
        if time.monotonic() >= end:
            for process in ranks.processes:
                process.kill()
            sys.exit(f"the ranks took more than {options.timeout:.0f} s: one of them waits for another")


if __name__ == "__main__":
    main()

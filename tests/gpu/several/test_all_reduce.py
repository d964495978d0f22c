"""Sums over ranks: as streams of one GPU, as two GPUs of one process, and as processes, in examples/all_reduce.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader

pytestmark = pytest.mark.skipif("all_reduce" not in loader.ops(), reason="no cache has all_reduce")
EXAMPLE = Path(__file__).parents[3] / "examples" / "all_reduce.py"
LENGTHS = (0, 1, 7, 8, 4099, 40_000)  # few enough blocks for eight ranks to run on one GPU at once
SIGNALS = 64


class Rank:
    """What one rank has: its input, its result, its signals and its stream."""

    def __init__(self, kernel: Any, n: int, world: int, device: int) -> None:
        import torch

        self.device = torch.device("cuda", device)
        dtype = getattr(torch, kernel.config["dtype"])
        self.x = torch.randn(n, device=self.device).to(dtype)
        self.out = torch.full_like(self.x, float("nan"))
        self.signals = torch.zeros(SIGNALS * world, dtype=torch.int32, device=self.device)
        self.stream = torch.cuda.Stream(self.device)


class Ranks:
    """Ranks of one process, and the tables by which each finds the others."""

    def __init__(self, config: dict[str, Any], n: int, devices: list[int]) -> None:
        import torch

        world = len(devices)
        self.kernels = {d: loader.get("all_reduce", {**config, "world": world}, device=d) for d in set(devices)}
        self.ranks = [Rank(self.kernels[d], n, world, d) for d in devices]
        self.tables = [
            [
                torch.tensor([getattr(r, name).data_ptr() for r in self.ranks], dtype=torch.int64, device=one.device)
                for name in ("x", "out", "signals")
            ]
            for one in self.ranks
        ]
        self.two = config["shots"] == 2
        for one in self.ranks:
            torch.cuda.synchronize(one.device)

    def launch(self, number: int) -> None:
        """One launch of a rank, on its stream."""
        import torch

        one, (inputs, outs, signals) = self.ranks[number], self.tables[number]
        with torch.cuda.device(one.device), torch.cuda.stream(one.stream):
            kernel = self.kernels[one.device.index]
            kernel(one.x, one.out, inputs, outs if self.two else None, signals, number)

    def sum(self) -> list[Any]:
        """The results of a launch on every rank."""
        import torch

        for number in range(len(self.ranks)):
            self.launch(number)
        for one in self.ranks:
            torch.cuda.synchronize(one.device)
        return [one.out for one in self.ranks]

    def check(self) -> None:
        """Every rank has the sum in float32, in the order of the ranks, rounded once; signals are zeros again."""
        import torch

        total = self.ranks[0].x.float()
        for one in self.ranks[1:]:
            total = total + one.x.to(total.device).float()
        expected = total.to(self.ranks[0].x.dtype)
        for number, out in enumerate(self.sum()):
            assert torch.equal(out.to(expected.device), expected), f"rank {number}"
        assert not any(bool(one.signals.any()) for one in self.ranks)


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("world", [2, 8])
@pytest.mark.parametrize("n", LENGTHS)
def test_streams_of_one_gpu(world: int, shots: int, n: int) -> None:
    """Eight ranks fit on it at these lengths; each launch is repeated, with what the one before left."""
    ranks = Ranks({"dtype": "bfloat16", "shots": shots}, n, [0] * world)
    for _ in range(3):
        ranks.check()


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("world", [2, 8])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_types(dtype: str, world: int, shots: int) -> None:
    config = {"dtype": dtype, "world": world, "shots": shots}
    if not any(config.items() <= dict(variant.config).items() for variant in loader.variants("all_reduce")):
        pytest.skip(f"no cache has all_reduce of {dtype} for {world} ranks: build manifests/collective.yaml")
    for n in LENGTHS:
        Ranks({"dtype": dtype, "shots": shots}, n, [0] * world).check()


@pytest.mark.parametrize("shots", [1, 2])
def test_graphs_are_replayed(shots: int) -> None:
    import torch

    ranks = Ranks({"dtype": "bfloat16", "shots": shots}, 4099, [0, 0])
    ranks.check()
    graphs = []
    for number, one in enumerate(ranks.ranks):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=one.stream):
            ranks.launch(number)
            ranks.launch(number)
        graphs.append(graph)
    for _ in range(5):
        for one in ranks.ranks:
            one.x.normal_()
            one.out.fill_(float("nan"))
        torch.cuda.synchronize()
        for one, graph in zip(ranks.ranks, graphs, strict=True):
            with torch.cuda.stream(one.stream):
                graph.replay()
        torch.cuda.synchronize()
        expected = (ranks.ranks[0].x.float() + ranks.ranks[1].x.float()).bfloat16()
        assert all(torch.equal(one.out, expected) for one in ranks.ranks)


def test_two_shots_in_place() -> None:
    import torch

    ranks = Ranks({"dtype": "bfloat16", "shots": 2}, 4099, [0, 0])
    expected = (ranks.ranks[0].x.float() + ranks.ranks[1].x.float()).bfloat16()
    for one, tables in zip(ranks.ranks, ranks.tables, strict=True):
        one.out, tables[1] = one.x, tables[0]
    torch.cuda.synchronize()  # the sum overwrites what was expected of it, on other streams
    assert all(torch.equal(out, expected) for out in ranks.sum())


def two_gpus() -> None:
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip(f"this machine has {count} GPU: two are needed")


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("n", [*LENGTHS, 1 << 20])
def test_two_gpus_of_one_process(shots: int, n: int) -> None:
    two_gpus()
    import torch

    for source, target in ((0, 1), (1, 0)):  # a copy is what makes torch let a GPU read the other's memory
        torch.ones(1, device=f"cuda:{source}").to(f"cuda:{target}")
    ranks = Ranks({"dtype": "bfloat16", "shots": shots}, n, [0, 1])
    for _ in range(3):
        ranks.check()


def test_processes_with_symmetric_memory(tmp_path: Path) -> None:
    """The example compares with float32 and between ranks; it ends with 1 where an element is wrong."""
    two_gpus()
    command = [sys.executable, str(EXAMPLE), "-o", str(tmp_path / "times.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 wrong elements on 2 ranks" in done.stdout

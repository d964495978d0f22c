"""Functions that make tensors, compile and launch: what they have compiled before the first launch is the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.compile.worker import Worker
from precast.build.ipc.message import Message
from precast.loader.contract.format.signature import Signature
from tests.helpers.kernels.kept_builds import worker_for

pytest.importorskip("torch")

EXAMPLE = '''
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def fill_kernel(x: cute.Tensor, value: cutlass.Float32):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        x[i] = value.to(x.element_type)


@cute.jit
def fill(x: cute.Tensor, value: cutlass.Float32):
    fill_kernel(x, value).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1])


def view(n):
    import torch

    return from_dlpack(torch.randn(n).cuda(), assumed_align=16).mark_layout_dynamic()


def run(n: int, **more):
    """As examples are: it makes tensors, compiles, launches and compares."""
    import torch

    x = view(n)
    fill(x, cutlass.Float32(0))  # fills an input, without cute.compile
    compiled = cute.compile(fill, x, cutlass.Float32(1))
    start = torch.cuda.Event(enable_timing=True)
    compiled(x, cutlass.Float32(1))
    raise AssertionError("it went on behind the launch")


def read(n: int):
    import torch

    if torch.ones(1 << 20, device="cuda").sum().cpu().item() > n:
        return cute.compile(fill, view(n), cutlass.Float32(1))


def nothing(n: int):
    return view(n)


def caught(n: int):
    try:
        cute.compile(fill, view(n), cutlass.Float32(1))(view(n), cutlass.Float32(1))
    except Exception:
        raise AssertionError("a handler of errors saw the launch")
'''


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "example.py").write_text(EXAMPLE)
    made = worker_for("sm_90a", [folder])
    yield made
    made.kill()


def compiled(worker: Worker, function: str) -> Any:
    request = {"source": f"example:{function}", "config": {"n": 1000}, "symbols": ["entry"], "seconds": 300}
    worker.send(Message(request))
    return worker.receive(300)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["run", "caught"])
def test_a_function_ends_at_its_first_launch(worker: Worker, function: str) -> None:
    reply = compiled(worker, function)
    assert "error" not in reply.header, f"{reply.header['error']}\n{reply.header['traceback']}"
    (signature,) = map(Signature.parse, reply.header["signatures"])
    assert [argument.name for argument in signature.passed] == ["x", "value"]
    assert len(reply.parts) == 1


def test_values_cannot_be_read(worker: Worker) -> None:
    assert "meta tensor" in compiled(worker, "read").header["error"]


@pytest.mark.slow
def test_a_function_that_compiles_nothing_is_refused(worker: Worker) -> None:
    assert "compiled nothing: it must call cute.compile" in compiled(worker, "nothing").header["error"]


def test_examples_of_cutlass_build(tmp_path: Path) -> None:
    """Some of the manifest's entries, from a clone that the user names."""
    import os

    from typer.testing import CliRunner

    from precast.cli.main import app
    from tests.helpers.source_tree import ROOT

    if not os.environ.get("CUTLASS_EXAMPLES"):
        pytest.skip("CUTLASS_EXAMPLES does not name a clone's folder examples/python/CuTeDSL")
    text = (ROOT / "manifests" / "cutlass-examples.yaml").read_text()
    head, entries = text.split("kernels:\n", 1)
    wanted = [
        e
        for e in entries.split("  - compile: ")[1:]
        if "elementwise" in e or "hopper.kernel.dense_gemm.dense_gemm:" in e
    ]
    manifest = tmp_path / "some.yaml"
    manifest.write_text(head + "kernels:\n" + "".join(f"  - compile: {entry}" for entry in wanted))
    arguments = ["build", str(manifest), "-o", str(tmp_path / "cache"), "-t", "sm_90a", "-j", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "3 variants built" in result.output


def test_examples_of_cutlass_for_several_gpus_build(tmp_path: Path) -> None:
    """Each GPU's kernel, on a machine that has none of them."""
    import os

    from typer.testing import CliRunner

    from precast.cli.main import app

    if not os.environ.get("CUTLASS_EXAMPLES"):
        pytest.skip("CUTLASS_EXAMPLES does not name a clone's folder examples/python/CuTeDSL")
    manifest = tmp_path / "some.yaml"
    manifest.write_text("""
version: 1
name: some
targets: [sm_100a]
path: ["${CUTLASS_EXAMPLES}", "${CUTLASS_EXAMPLES}/cute"]
kernels:
  - compile: "precast.manifests.scripts.cutlass_grouped:run"
    op: grouped
    config: {sizes: [[[128, 128, 128, 1], [256, 256, 256, 1]]]}
  - compile: "precast.manifests.scripts.cutlass_distributed:all_reduce"
    op: sum
    config: {example: all_reduce_one_shot_lamport, function: run_all_reduce_one_shot, ranks: 4, rank: [0, 3]}
  - compile: "precast.manifests.scripts.cutlass_distributed:gemm"
    op: gemm
    config: {example: distributed_gemm_all_reduce_blackwell, ranks: 4, rank: 1}
""")
    result = CliRunner().invoke(app, ["build", str(manifest), "-o", str(tmp_path / "cache"), "-j", "1"])
    assert result.exit_code == 0, result.output
    assert "4 variants built" in result.output

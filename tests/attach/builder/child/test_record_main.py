"""What a program can do while it is recorded without a GPU, beside asking for kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

HEAD = """
import torch
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_cuda import install_fake_cuda
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.child.stand_in.tensor_values import TensorValues
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.scripts.meta_tensors import own_operators, without_memory
from precast.loader.contract.format.target import Target

install_fake_gpu(FactRecorder(**profile_of(Target.parse("sm_90a")).to_json()))
install_fake_cuda()

reached = []

@torch.library.custom_op("toy::inner", mutates_args=())
def inner(x: torch.Tensor) -> torch.Tensor:
    reached.append("inner")
    return torch.empty_like(x)

@torch.library.custom_op("toy::outer", mutates_args=())
def outer(x: torch.Tensor) -> torch.Tensor:
    reached.append("outer")
    return inner(x)

@torch.library.custom_op("toy::backward", mutates_args=())
def backward(x: torch.Tensor) -> torch.Tensor:
    reached.append("backward")
    return torch.empty_like(x)

for operator in (inner, outer, backward):
    operator.register_fake(torch.empty_like)
outer.register_autograd(lambda context, gradient: backward(gradient))

library = torch.library.Library("toy", "FRAGMENT")
for name in ("made", "fails"):
    library.define(f"{name}(Tensor x) -> {'Tensor' if name == 'made' else '()'}")

def unknown_token(x):
    reached.append("made")
    return torch.empty(3, dtype=torch.int64, device="cuda")

def register():
    library.impl("made", unknown_token, "CUDA")
    library.impl("fails", lambda x: 1 / 0, "CUDA")

def ints(*values):
    return torch.tensor(values, device="cuda", dtype=torch.int32)

def unknown(read):
    try:
        read()
    except (RuntimeError, NotImplementedError):
        return True

"""
VALUES = {
    "read": "assert ints(5, 6).max().item() == 6 and int(ints(3)) == 3 and bool(ints(3) > 2)",
    "computed": "lengths = ints(0, 128, 300); assert (lengths[1:] - lengths[:-1]).tolist() == [128, 172]",
    "iterated": "assert [int(one) for one in ints(1, 2)] == [1, 2]",
    "to the CPU": "assert ints(1, 2).cpu().tolist() == ints(1, 2).to('cpu').tolist() == [1, 2]",
    "from the CPU": "assert torch.full((2,), 7, device='cpu').cuda(non_blocking=True).tolist() == [7, 7]",
    "counted": "assert torch.arange(3, device='cuda').tolist() == [0, 1, 2]",
    "converted": "assert ints(1, 2).to(torch.bfloat16).float().tolist() == [1.0, 2.0]",
    "written": "x = ints(1, 2); x[1] = 7; x[:1].add_(1); assert x.tolist() == [2, 7]",
    "copied": "c = torch.tensor([1], device='cpu'); x = c.cuda(); y = c.to('cuda'); c.add_(1); "
    "assert x.item() == y.item() == 1",
    "overwritten": "x = ints(1, 2); view = x[1:]; x.copy_(torch.empty(2, device='cuda')); assert unknown(view.item)",
    "written to out": "x = ints(1); torch.add(torch.empty_like(x), 1, out=x); assert unknown(x.item)",
    "computed by a kernel": "assert unknown(torch.empty(1, device='cuda').item)",
    "mixed": "assert unknown((ints(1) + torch.empty(1, device='cuda')).item)",
    "random": "assert unknown(torch.rand_like(ints(1).float()).item)",
    "without values": "assert unknown(torch.empty_like(ints(1)).item)",
    "too many": "assert unknown(torch.arange(65537, device='cuda')[0].item)",
    "random integers": "x = torch.randint(3, 9, (4,), device='cuda'); assert 3 <= x.min().item() <= x.max().item() < 9",
    "a size": "assert torch.randn(ints(2, 3)[-1], 4, device='cuda').view(ints(12).sum()).shape == (12,)",
    "a size of itself": "assert ints(3).sum().view(1).tolist() == [3]",
    "zeros": "x = torch.zeros(3, device='cuda', dtype=torch.int32); x[1:] = ints(4, 5); assert x.tolist() == [0, 4, 5]",
    "where they are": "found = torch.nonzero(ints(0, 7, 0, 9)); assert found.is_meta and found.tolist() == [[1], [3]]",
    "where, as tensors": "rows, = torch.nonzero(ints(0, 7, 9), as_tuple=True); assert rows.tolist() == [1, 2]",
    "picked": "assert ints(1, 2, 3)[ints(0, 1, 1).bool()].tolist() == [2, 3]",
}
CUDA = {
    "device": "assert torch.device('cuda').type == 'cuda' and ints(1).device == torch.device('cuda', 0)",
    "is_cuda": "assert ints(1).is_cuda",
    "placed": "assert torch.empty(1, device=torch.device('cuda')).is_meta",
    "default device": "with torch.device('cuda'): assert torch.empty(1).is_meta",
    "streams": "s = torch.cuda.Stream(); torch.cuda.current_stream().wait_stream(s); ints(1).record_stream(s)\n"
    "    with torch.cuda.stream(s): s.synchronize()",
    "events": "one, two = (torch.cuda.Event(enable_timing=True) for _ in 'ab'); one.record(); two.record(); "
    "torch.cuda.synchronize(); assert one.query() and one.elapsed_time(two) > 0",
    "graphs": "g = torch.cuda.CUDAGraph()\n    with torch.cuda.graph(g): pass\n    g.replay()",
    "torch.compile": "f = torch.compile(lambda x: x + 1); assert f(ints(1)).item() == 2\n"
    "    @torch.compile(fullgraph=True)\n    def g(x): return x\n    assert g(ints(3)).item() == 3",
    "own operators": "reached.clear(); x = torch.ones(3, device='cuda', requires_grad=True)\n"
    "    outer(x).sum().backward(); assert reached == ['outer', 'inner', 'backward'], reached",
    "memory": "assert torch.accelerator.get_memory_info()[0] > 0 and torch.accelerator.memory_stats() == {}",
    "pinned memory": "assert torch.zeros(2, device='cpu', pin_memory=True).tolist() == [0, 0]",
    "pinned memory without a device": "x = torch.empty(2, dtype=torch.int32, pin_memory=True)\n"
    "    one = torch.ones(2, dtype=torch.int32, device='cpu'); torch.add(one, one, out=x); assert x.tolist() == [2, 2]",
    "pinned": "assert torch.empty(1, device='cpu').pin_memory() is not None",
}


ENGINE = {
    "operators of a library": "reached.clear(); x = torch.ops.toy.made(ints(1)); assert reached and x.is_cuda",
    "zeros": "x = torch.empty(2, device='cuda'); assert x.tolist() == x.cpu().tolist() == [0, 0] and x[0].item() == 0",
    "known values": "assert ints(1, 2).tolist() == [1, 2]",
    "to the host": "x = torch.ones(2, device='cpu'); x.copy_(torch.empty(2, device='cuda')); assert not x.any()",
    "a failing operator": "assert torch.ops.toy.fails(ints(1)) is None and failed == {'toy::fails'}",
}
"""Where an engine is recorded."""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the pieces that fail, each tried in one process."""
    program = tmp_path_factory.mktemp("record") / "program.py"
    pieces = list((VALUES | CUDA).items()) + list(ENGINE.items())
    bodies = [f"def piece{i}():\n    {text}\n" for i, (_, text) in enumerate(pieces)]
    head = HEAD
    tail = f"""
def run(numbers):
    for i in numbers:
        try:
            globals()[f"piece{{i}}"]()
        except BaseException as error:
            print(i, type(error), error)

with without_memory(), TensorValues(), own_operators():
    run(range({len(VALUES | CUDA)}))
failed = set()
with without_memory(), TensorValues(zeros=True), own_operators(lambda name, _: failed.add(name)):
    register()
    with torch.inference_mode():
        run(range({len(VALUES | CUDA)}, {len(bodies)}))
"""
    program.write_text("\n".join([head, *bodies, tail]))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    names = [
        f"engine: {name}" if name in ENGINE and i >= len(VALUES | CUDA) else name for i, (name, _) in enumerate(pieces)
    ]
    print(done.stdout)
    return {names[int(line.partition(" ")[0])] for line in done.stdout.splitlines() if line[:1].isdigit()}


@pytest.mark.parametrize("piece", VALUES)
def test_a_small_tensor_made_of_values_keeps_them(failures: set[str], piece: str) -> None:
    assert piece not in failures


@pytest.mark.parametrize("piece", CUDA)
def test_what_programs_ask_of_cuda_works(failures: set[str], piece: str) -> None:
    assert piece not in failures


@pytest.mark.parametrize("piece", ENGINE)
def test_an_engine_continues_where_a_value_or_an_operator_is_absent(failures: set[str], piece: str) -> None:
    assert f"engine: {piece}" not in failures

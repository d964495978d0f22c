"""Dumps of real launches: what is on disk, what replaying says, a crash, a graph that is captured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.build.on_gpu.replay import find_cache, notes_of, replayed
from precast.loader import session
from precast.loader.contract.diagnostics.dump_folder import find_call, read_block, read_dump
from precast.loader.contract.diagnostics.requests import read_requests


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A session that dumps into a folder, and notes requests."""
    monkeypatch.setenv("PRECAST_DUMP", str(tmp_path / "dumps"))
    monkeypatch.setenv("PRECAST_REQUESTS", str(tmp_path / "requests.jsonl"))
    before = session.use(session.Session())
    yield tmp_path / "dumps"
    session.use(before)


def scaled(count: int = 1 << 12) -> tuple[Any, Any, Any]:
    import torch

    kernel = loader.get("scale", {"dtype": torch.float32}, problem={"n": count})
    return kernel, torch.randn(count, device="cuda"), torch.full((count,), float("nan"), device="cuda")


def test_a_call_is_on_disk_as_the_kernel_saw_it(folder: Path) -> None:
    """The input is written on a side stream after a long wait: the dump waits for it, as the launch does."""
    import torch

    kernel, x, out = scaled()
    fresh = torch.randn_like(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(fresh)
        kernel(x, out, 1.5)
    torch.cuda.synchronize()
    torch.testing.assert_close(out, fresh * 1.5)
    call = find_call(folder)
    dump = read_dump(call)
    layout = dump.arguments[0].layout
    assert layout is not None and dump.stream and not dump.on_host
    data = read_block(call, dump, layout.block)
    assert data is not None
    assert data[layout.offset : layout.offset + layout.size] == fresh.cpu().numpy().tobytes()


def test_a_replayed_call_agrees_with_its_reference_and_with_the_next_call(folder: Path) -> None:
    kernel, x, out = scaled()
    kernel(x, out, 1.5)
    first = find_call(folder)
    kernel(out, x, 0.5)
    dump = read_dump(first)
    cache = find_cache(dump, None)
    assert notes_of(dump, cache) == []
    result = replayed(first, cache, 120.0)
    assert result["ended"], result
    (output,) = result["outputs"]
    assert not output["wrong"] and "of the tolerance" in output["reference"]
    assert output["later"] == "as before the next call"


def test_requests_are_noted(folder: Path) -> None:
    scaled()
    (one,) = read_requests((folder.parent / "requests.jsonl").read_bytes()).requests
    assert one.op == "scale" and one.found and one.capability and one.problem == {"n": 1 << 12}


def test_a_graph_can_be_captured_and_its_memory_is_left_out(folder: Path) -> None:
    import torch

    kernel, x, out = scaled()
    kernel(x, out, 1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, out, 2.0)
    assert {block.left_out for block in read_dump(find_call(folder)).blocks} == {"the stream was capturing a graph"}
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, x * 2)


CRASH = """
import ctypes, torch
from precast import loader
from tests.helpers.exchange import CUDA, Fake
def tensor_at(address, count):  # where no memory is: torch takes it by DLPack, without a look
    fake = Fake(address, (count,), (CUDA, 0))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    kept.append(fake)
    return torch.from_dlpack(new(ctypes.addressof(fake._managed), NAME, None))
kept, NAME = [], b"dltensor_versioned"
kernel = loader.get("scale", {"dtype": torch.float32})
x, out = torch.ones(4096, device="cuda"), torch.empty(4096, device="cuda")
kernel(x, out, 1.0)
torch.cuda.synchronize()
kernel(tensor_at(1 << 44, 4096), out, 99.0)
try:
    kernel(x, out, 2.0)
    torch.cuda.synchronize()
except Exception as error:
    print("raised", type(error).__name__, flush=True)
    raise SystemExit(7)
"""


def test_after_a_crash_the_last_dump_is_that_of_the_crashing_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: after an illegal access nothing works in it any more."""
    monkeypatch.setenv("PRECAST_DUMP", str(tmp_path / "dumps"))
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", CRASH], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout
    assert "the GPU failed before a call of scale was launched" in done.stderr
    dump = read_dump(find_call(tmp_path / "dumps"))
    assert dump.arguments[2].value == 99.0
    assert "the driver cannot read it" in {block.left_out for block in dump.blocks}
    result = replayed(find_call(tmp_path / "dumps"), find_cache(dump, None), 120.0)
    assert result["ended"], "with memory there it does not crash: the address was what was wrong"

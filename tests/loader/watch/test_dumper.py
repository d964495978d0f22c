"""The dumper: the last calls of a process on disk, complete, also of one that was killed."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from precast import loader
from precast.loader.contract.diagnostics.dump import Dump, DumpedArgument
from precast.loader.contract.diagnostics.dump_folder import HEADER, find_call, read_block, read_dump
from precast.loader.launch.kernel import Kernel
from precast.loader.machine.machine import Machines
from precast.loader.watch import dumper, notice
from precast.loader.watch.memory import GpuFailed
from tests.helpers.echo import HOPPER
from tests.helpers.loader_fixtures import Use


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECAST_DUMP", str(tmp_path / "dumps"))
    notice._reported.clear()
    return tmp_path / "dumps"


@pytest.fixture
def kernel(path: Path, use: Use, folder: Path) -> Kernel:
    use(path, machines=Machines(HOPPER))
    return loader.get("scale", {"dtype": "float32"})


def calls(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.glob("*/*"))


def memory(call: Path, dump: Dump, place: int) -> bytes:
    layout = dump.arguments[place].layout
    assert layout is not None
    data = read_block(call, dump, layout.block)
    assert data is not None
    return data[layout.offset : layout.offset + layout.size]


def test_a_call_is_written_down_before_it_is_launched(kernel: Kernel, folder: Path) -> None:
    x, y = torch.arange(8.0), torch.full((8,), -1.0)
    kernel(x, y, 3.0)
    assert (y == 3 * x).all()
    call = find_call(folder)
    dump = read_dump(call)
    assert (dump.op, dump.key, dump.cache) == ("scale", kernel.artifact.key, "demo")
    assert dump.config == dict(kernel.config) and dump.target == kernel.target and dump.signature == kernel.signature
    assert dump.stream and dump.process == os.getpid() and dump.number == 0
    assert dump.arguments[2] == DumpedArgument(kind="float", value=3.0)
    assert memory(call, dump, 0) == x.numpy().tobytes()
    assert memory(call, dump, 1) == torch.full((8,), -1.0).numpy().tobytes(), "what it was before the launch"


def test_names_are_put_in_order(kernel: Kernel, folder: Path) -> None:
    x, y = torch.arange(8.0), torch.zeros(8)
    kernel(factor=2.0, y=y, x=x)
    call = find_call(folder)
    assert memory(call, read_dump(call), 0) == x.numpy().tobytes() and (y == 2 * x).all()


def test_the_last_calls_are_kept(kernel: Kernel, folder: Path) -> None:
    x, y = torch.arange(8.0), torch.zeros(8)
    for number in range(9):
        kernel(x, y, float(number))
    assert calls(folder) == [f"call-{number:012d}" for number in (5, 6, 7, 8)]
    assert read_dump(find_call(folder)).arguments[2].value == 8.0


def test_how_many_and_how_much(path: Path, use: Use, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECAST_DUMP_CALLS", "1")
    monkeypatch.setenv("PRECAST_DUMP_LIMIT", "40")
    use(path, machines=Machines(HOPPER))
    kernel = loader.get("scale", {"dtype": "float32"})
    for _ in range(2):
        kernel(torch.zeros(8), torch.zeros(8), 1.0)
    (call,) = folder.glob("*/*")
    reasons = sorted(block.left_out for block in read_dump(call).blocks)
    assert reasons == ["", "32 bytes, and PRECAST_DUMP_LIMIT leaves 8"]
    assert sum(one.name.startswith("memory") for one in call.iterdir()) == 1


def test_a_bound_that_is_no_number_is_told(
    path: Path, use: Use, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRECAST_DUMP_LIMIT", "16M")
    use(path, machines=Machines(HOPPER))
    assert "PRECAST_DUMP_LIMIT='16M' is not a number: using 16777216" in capfd.readouterr().err


def test_only_its_user_may_read_it(kernel: Kernel, folder: Path) -> None:
    kernel(torch.zeros(8), torch.zeros(8), 1.0)
    for one in (*folder.glob("*"), *folder.glob("*/*")):
        assert one.stat().st_mode & 0o077 == 0


def test_a_call_that_is_refused_for_its_device_is_not_written(path: Path, use: Use, folder: Path) -> None:
    use(path, machines=Machines(loader_machine_without_device()))
    kernel = loader.get("scale", {"dtype": "float32"}, target="sm_90a")
    with pytest.raises(loader.NoCudaDevice):
        kernel(torch.zeros(8), torch.zeros(8), 1.0)
    assert not folder.exists()


def loader_machine_without_device() -> Any:
    from precast.loader.machine.machine import Machine

    return Machine(arch=platform.machine(), glibc=(2, 36), tvm_ffi="0.1.15", absent="there is none")


@pytest.mark.parametrize("place", ["file", "/dev/null/x"])
def test_a_place_that_cannot_be_written_is_told_once(
    place: str, path: Path, tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    notice._reported.clear()
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRECAST_DUMP", str(tmp_path / place))
    use(path, machines=Machines(HOPPER))
    kernel = loader.get("scale", {"dtype": "float32"})
    for _ in range(3):
        y = torch.zeros(8)
        kernel(torch.ones(8), y, 2.0)
        assert (y == 2).all()
    assert capfd.readouterr().err.count("precast: warning: PRECAST_DUMP: could not dump a call of scale") == 1


def test_after_the_gpu_failed_the_last_dump_is_that_of_the_last_launch(
    kernel: Kernel, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    kernel(torch.zeros(8), torch.zeros(8), 7.0)

    def failed(*_: object) -> Any:
        raise GpuFailed("cuCtxSynchronize returned error 700")

    monkeypatch.setattr(dumper, "bytes_of", failed)
    kernel(torch.zeros(8), torch.zeros(8), 8.0)
    assert calls(folder) == ["call-000000000000"] and read_dump(find_call(folder)).arguments[2].value == 7.0
    assert f"the last call was {find_call(folder)}" in capfd.readouterr().err


def test_a_dump_that_could_not_be_finished_is_taken_away(
    kernel: Kernel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    kernel(torch.zeros(8), torch.zeros(8), 1.0)
    monkeypatch.undo()
    assert calls(folder) == []


SERVICE = """
import os, signal, sys
os.environ["PRECAST_CACHE_PATH"], os.environ["PRECAST_DUMP"] = sys.argv[1:3]
import torch
from precast import loader
from precast.loader import session
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machines, replace
session.use(session.Session(machines=Machines(replace(Machines().host, capability=Capability(9, 0)))))
kernel = loader.get("scale", {"dtype": "float32"})
x, y, number = torch.zeros(4096), torch.zeros(4096), 0
END
"""


def service(path: Path, folder: Path, end: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", SERVICE.replace("END", end), str(path), str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["memory-0", "memory-1", HEADER])
def test_a_process_that_is_killed_while_it_writes_leaves_the_call_before(path: Path, folder: Path, name: str) -> None:
    end = f"""
from pathlib import Path
write = Path.write_bytes
def dying(self, data):
    if number == 2 and self.name == {name!r}:
        write(self, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, data)
Path.write_bytes = dying
for number in range(5): kernel(x, y, float(number))
"""
    with service(path, folder, end) as child:
        assert child.wait() == -signal.SIGKILL
    assert [one.name for one in folder.glob("*/call-*") if read_dump(one).number > 1] == []
    assert read_dump(find_call(folder)).number == 1


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_moment_leaves_complete_calls(path: Path, folder: Path) -> None:
    """It calls without a pause, so that the signal comes while something is written, more often than not."""
    end = "while True:\n    x.fill_(number); kernel(x, y, float(number)); number += 1; print(number, flush=True)"
    for round_ in range(3):
        place = folder / str(round_)
        with service(path, place, end) as child:
            assert child.stdout is not None
            for _ in range(5 + 7 * round_):
                done = int(child.stdout.readline())
            child.kill()
            assert child.wait() == -signal.SIGKILL
        found = sorted(one for one in place.glob("*/call-*"))
        assert found and done <= read_dump(found[-1]).number + 1
        for call in found:
            dump = read_dump(call)
            assert (call / HEADER).is_file() and dump.arguments[2].value == dump.number
            assert memory(call, dump, 0) == torch.full((4096,), float(dump.number)).numpy().tobytes()


@pytest.mark.slow
def test_the_last_call_of_a_process_that_crashed_is_that_one(path: Path, folder: Path) -> None:
    """It dies in the launch; a kernel that ends the process stands in for one that does so by itself."""
    end = """
for number in range(3): kernel(x, y, float(number))
class Crashing:
    def __getattr__(self, name, inner=kernel._inner): return getattr(inner, name)
    def __call__(self, *args): os.kill(os.getpid(), signal.SIGSEGV)
kernel._inner = Crashing()
kernel(x, y, 99.0)
"""
    with service(path, folder, end) as child:
        assert child.wait() == -signal.SIGSEGV
    assert read_dump(find_call(folder)).arguments[2].value == 99.0


@pytest.mark.slow
def test_a_forked_child_has_a_folder_of_its_own(path: Path, folder: Path) -> None:
    end = """
kernel(x, y, 1.0)
child = os.fork()
kernel(x, y, 2.0)
if child == 0: os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    with service(path, folder, end) as child:
        assert child.wait() == 0
    assert sorted(len(list(one.iterdir())) for one in folder.iterdir()) == [1, 2]

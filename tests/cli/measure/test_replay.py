"""``precast replay`` as a user runs it, on calls whose tensors are in the memory of the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from precast.loader import session
from precast.loader.contract.diagnostics.dump_folder import HEADER, block_name, find_call
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from tests.helpers.caches import Native, demo, echo_cache
from tests.helpers.echo import HOPPER, RAISE
from tests.helpers.gpu.device import no_device

pytestmark = pytest.mark.slow

MODULE = """
from precast.kernels import DType, kernel
from precast.kernels.authoring.declare import Tolerance

@kernel(
    op="scale", outputs=["y"], tolerance=lambda config: Tolerance(rtol=1e-6, atol=0.0),
    reference=lambda config, inputs: {"y": inputs["x"].double() * FACTOR(inputs["factor"])},
)
def scale(dtype: DType, layout: str = "row", threads: int = 128): ...
"""


def cache_of(native: Native, folder: Path) -> Path:
    """The cache of the tests, whose op was built from a function that is not registered."""
    writer = demo(native)
    listed = writer.ops["scale"]
    made = {"function": "acme_replayed:scale", "registered": False}
    rows = tuple(replace(a, provenance=made) for a in listed.artifacts)
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc="", artifacts=rows)
    return writer.write(folder)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    before = session.default

    def begin(cache: Path) -> session.Session:
        monkeypatch.setenv("PRECAST_DUMP", str(tmp_path / "dumps"))
        session.use(session.Session(str(cache), machines=Machines(HOPPER)))
        return session.default

    yield begin
    session.use(before)


@pytest.fixture
def cache(tmp_path: Path, use: Any) -> Path:
    """A cache with one dumped call."""
    (tmp_path / "native").mkdir()
    path = cache_of(Native(tmp_path / "native"), tmp_path / "cache")
    kernel = use(path).get(Request(op="scale", config={"dtype": "float32"}))
    kernel(torch.arange(8.0), torch.zeros(8), 3.0)
    return path


def run(tmp_path: Path, *words: object, factor: str = "float", **variables: str) -> subprocess.CompletedProcess[str]:
    modules = tmp_path / "modules"
    modules.mkdir(exist_ok=True)
    (modules / "acme_replayed.py").write_text(MODULE.replace("FACTOR", factor))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRECAST_")}
    environment |= {"PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "precast.cli.main", "replay", *map(str, words)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_call_that_is_right(cache: Path, tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache)
    assert (done.returncode, done.stderr) == (0, "")
    head, ended, output = done.stdout.splitlines()
    assert head == (f"scale {{dtype: float32, layout: row, threads: 256}} for sm_90a, call 0 of process {os.getpid()}")
    assert ended == "the call ended"
    assert output == "output: y: 0.00 of the tolerance; no next call was kept"


def test_a_call_that_is_wrong(cache: Path, tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache, "--json", factor="2 * float")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["ended"] and data["outputs"][0]["wrong"] and "7 of 8 values differ" in data["outputs"][0]["reference"]


def test_without_the_authors_module_it_is_still_made(cache: Path, tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache, factor="1 / 0 #")
    assert done.returncode == 0
    assert "its author's declaration cannot be read" in done.stdout or "the reference failed" in done.stdout


def test_the_cache_is_found_by_the_variable(cache: Path, tmp_path: Path) -> None:
    without = run(tmp_path, tmp_path / "dumps")
    assert without.returncode == 2 and "with --cache" in without.stderr
    other = demo(Native(tmp_path / "native"), name="other", offset=1).write(tmp_path / "other")
    wrong = run(tmp_path, tmp_path / "dumps", "--cache", other)
    assert wrong.returncode == 2 and f"{other} does not have the kernel" in wrong.stderr


def test_another_cache_with_the_same_artifact_is_told(cache: Path, tmp_path: Path) -> None:
    renamed = json.loads((cache / "index.json").read_text())
    (cache / "index.json").write_text(json.dumps({**renamed, "name": "renamed"}))
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache)
    assert done.returncode == 0 and "note: cache 'renamed' is not the one that the program had" in done.stdout


def echoed(tmp_path: Path, use: Any, *args: Any) -> Path:
    """A dumped call of an entry that does what its first argument says."""
    (tmp_path / "native").mkdir(exist_ok=True)
    cache, _ = echo_cache(Native(tmp_path / "native"), tmp_path / "echo")
    kernel = use(cache.path).get(Request(op="echo"))
    kernel(*args)
    return cache.path


def changed_wish(tmp_path: Path, wish: int) -> Path:
    """The dumped call, with another first argument: what the entry then does would have ended the test."""
    call = find_call(tmp_path / "dumps")
    header = json.loads((call / HEADER).read_text())
    header["arguments"][0]["value"] = wish
    (call / HEADER).write_text(json.dumps(header))
    return call


def test_a_call_that_fails(tmp_path: Path, use: Any) -> None:
    cache = echoed(tmp_path, use, 0, 1, 2)
    done = run(tmp_path, changed_wish(tmp_path, RAISE), "--cache", cache)
    assert done.returncode == 1 and "the call did not end: " in done.stdout, done.stdout + done.stderr


def test_a_call_that_hangs(cache: Path, tmp_path: Path) -> None:
    """The reference does not end, as a kernel whose blocks wait for each other."""
    endless = "(lambda f: __import__('time').sleep(600))"
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache, "--timeout", "5", factor=endless)
    assert done.returncode == 1
    assert "the call did not end: no answer in 5 s; the replaying process was ended" in done.stdout


def test_a_process_that_dies_is_told(cache: Path, tmp_path: Path) -> None:
    """The reference ends it, as a crash of the kernel would."""
    killed = "(lambda f: __import__('os').kill(__import__('os').getpid(), 11))"
    done = run(tmp_path, tmp_path / "dumps", "--cache", cache, factor=killed)
    assert done.returncode == 1
    assert "the call did not end: the replaying process was ended by SIGSEGV" in done.stdout


def test_the_replaying_process_has_all_variables_but_those_that_watch(cache: Path, tmp_path: Path) -> None:
    """The reference is wrong where it has PRECAST_DUMP, or lacks another."""
    here = "(lambda f: f if {'PRECAST_DUMP', 'ACME_TOOL'} & {*__import__('os').environ} == {'ACME_TOOL'} else 0)"
    done = run(
        tmp_path, tmp_path / "dumps", "--cache", cache, factor=here, PRECAST_DUMP=str(tmp_path / "more"), ACME_TOOL="1"
    )
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "more").exists()


@pytest.mark.skipif(not no_device(), reason="there is a CUDA device")
def test_a_call_on_a_gpu_needs_one(cache: Path, tmp_path: Path) -> None:
    call = find_call(tmp_path / "dumps")
    header = json.loads((call / HEADER).read_text())
    for block in header["blocks"]:
        block["device"] = [2, 0]
    (call / HEADER).write_text(json.dumps(header))
    done = run(tmp_path, call, "--cache", cache)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no CUDA device to make the call on: ")


def test_a_damaged_dump_is_refused(cache: Path, tmp_path: Path) -> None:
    call = find_call(tmp_path / "dumps")
    (call / block_name(0)).write_bytes(b"")
    done = run(tmp_path, call, "--cache", cache)
    assert done.returncode == 2 and "has 0 bytes, but the header states 32" in done.stderr


def test_a_folder_without_a_dump_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path)
    assert done.returncode == 2 and "holds no dumped call" in done.stderr

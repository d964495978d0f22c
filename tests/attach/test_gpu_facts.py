"""What a compile function queries of its GPU: built for the target's, served on such a GPU only, and for any rank."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.target import Capability
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import run_forked
from tests.helpers.builds import HEAD, precast
from tests.helpers.resolutions import HERE

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LIBRARY = {
    "ranked/kernels.py": f"""
{HEAD}
import functools
import torch


@functools.cache
def compiled(n, device_index):
    sms = torch.cuda.get_device_properties(device_index).multi_processor_count
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=4),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, x, float(n + sms), stream, options="--enable-tvm-ffi")
""",
    "ranked_seams.py": """
from precast.attach import CompileFunctions, Library

LIBRARY = Library(
    name="ranked",
    distribution="ranked",
    package="ranked",
    seams=(CompileFunctions("ranked", devices=("device_index",)),),
)
""",
}
RANK = """
import sys
import torch
from ranked import kernels

torch.cuda.set_device(5)
kernels.compiled(3, 5)
kernels.compiled(3, device_index=torch.cuda.current_device())
"""
SERVE = """
import json
from precast import loader
attached = loader.attach(["ranked"], mode="frozen", target="sm_90a")
from ranked import kernels
print(json.dumps([kernels.compiled(3, rank) is not None for rank in range(8)]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of what rank 5 of a server compiles."""
    folder = tmp_path_factory.mktemp("ranks")
    site = write_library(folder / "site", LIBRARY, package="ranked", distribution="ranked")
    (site / "ranked-1.0.dist-info" / "entry_points.txt").write_text("[precast.libraries]\nranked = ranked_seams\n")
    (folder / "rank.py").write_text(RANK)
    manifest = folder / "ranked.yaml"
    words = ("record", "-t", "sm_90a", "--library", "ranked", "-o", manifest, "--", "python", folder / "rank.py")
    for command in (words, ("build", manifest, "-o", folder / "cache")):
        done = precast(folder / "store", *command, PYTHONPATH=str(site))
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def on_gpu(cache: Path, **facts: int) -> tuple[Any, str]:
    """The kernel that a Hopper GPU of these facts is given, and why none is."""
    opened = Cache(cache)
    (op,) = opened.index.ops
    source = CachedOp(cache="ranked", precedence=0, index=opened.index, op=opened.op(op))
    (only,) = source.op.artifacts
    machine = replace(HERE, glibc=(9, 9), capability=Capability(9, 0), query=facts.get)
    resolution = resolve(Request(op=op, config=dict(only.config)), machine, [source])
    return resolution.chosen, str(resolution)


def test_a_recording_of_one_rank_is_one_kernel_that_serves_all_ranks(folder: Path) -> None:
    done = run_forked(SERVE, path=[folder / "site"], cache=folder / "cache")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True] * 8


def test_a_gpu_with_another_number_of_sms_is_refused_with_the_reason(folder: Path) -> None:
    cache = folder / "cache"
    (op,) = Cache(cache).index.ops
    (artifact,) = Cache(cache).op(op).artifacts
    assert artifact.assumes == Assumptions(needs={"multiprocessor_count": 132}, speed={})
    assert on_gpu(cache, multiprocessor_count=132)[0] is not None
    chosen, reason = on_gpu(cache, multiprocessor_count=114)
    assert chosen is None
    assert "multiprocessor_count" in reason and "132" in reason and "114" in reason, reason

"""What is installed here builds for CUDA 12 and for CUDA 13, and one process without the compiler holds both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.interpreter import version_of
from precast.build.link import elf
from precast.build.link.versions import DSL, LIBRARIES, release_of, toolkit
from precast.loader.resolve.cache import Cache
from tests.end_to_end.conftest import Run, manifest

missing = [name for name in LIBRARIES.values() if not version_of(name)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("without_torch"),
    pytest.mark.skipif(bool(missing), reason=f"pip install 'precast[cu13]': there is no {', '.join(missing)}"),
]

USE = """
import sys
from precast import loader
from precast.loader.resolve.candidate import Candidate, Request
from precast.loader.session import Session
for folder in sys.argv[1:]:
    session = Session(folder)
    for op in session.caches()[0].index.ops:
        source = session.sources(op)[0][0]
        for one in source.op.artifacts:
            kernel = session.load(Candidate(source, one), Request(op=op, target=str(one.target))).kernel
            try:
                kernel(None, None, 1.0)
            except loader.NoCudaDevice:
                print(op, one.config, kernel.signature)
    print(len(session.opener.libraries.runtimes))
assert "cutlass" not in sys.modules
"""


def test_both_are_built_and_held_by_one_process(user: Path, tmp_path: Path, precast: Run) -> None:
    asked = manifest(user, "plain", targets="[sm_90a]")
    caches = {cuda: tmp_path / str(cuda) for cuda in LIBRARIES}
    store = tmp_path / "store"
    for cuda, cache in caches.items():
        done = precast("build", asked, "-o", cache, "-j", 1, "--store", store, PRECAST_CUDA=str(cuda))
        assert done.returncode == 0, done.stderr
        assert "2 variants built, 0 reused" in done.stdout, "each has keys of its own in one store"
    index = {cuda: Cache(cache).index for cuda, cache in caches.items()}
    for cuda in LIBRARIES:
        assert index[cuda].toolchain["cuda"] == toolkit(cuda, release_of(version_of(DSL)))
        code = Cache(caches[cuda]).read(index[cuda].runtimes[0].blob)
        assert not {symbol for symbol in elf.undefined(code) if symbol.startswith(("cuda", "_cuda", "cuD"))}
    assert index[12].runtimes[0].soname != index[13].runtimes[0].soname
    done = subprocess.run([sys.executable, "-c", USE, *caches.values()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6 and lines[:3] == lines[3:] and lines[2] == "1", lines

    other = precast("reproduce", asked, caches[13], PRECAST_CUDA="12")
    assert other.returncode == 1, other.stdout + other.stderr
    assert re.search(r"cuda is 12\S* here and 13\S* there", other.stderr), other.stderr
    same = precast("reproduce", asked, caches[13], "--json", PRECAST_CUDA="13")
    assert same.returncode == 0, same.stdout + same.stderr
    assert json.loads(same.stdout)


def test_a_cuda_that_there_is_not_is_refused(user: Path, tmp_path: Path, precast: Run) -> None:
    done = precast("build", manifest(user, "plain"), "-o", tmp_path / "cache", PRECAST_CUDA="14")
    assert done.returncode == 1
    assert "PRECAST_CUDA is '14': set it to 12 or 13, or remove it" in done.stderr

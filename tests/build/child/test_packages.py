"""A build of two packages, one of which asks for the GPU while it is imported: its own kernels alone depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.builds import HEAD, events, manifest, precast, tree

pytestmark = pytest.mark.usefixtures("without_torch")

ASKING = """
from adding import compile_add
from cuda.bindings import runtime

GPU = runtime.cudaGetDeviceProperties(0)[1]
MAJOR, MINOR, SMS = GPU.major, GPU.minor, GPU.multiProcessorCount


def add(n: int):
    return compile_add(1000 * SMS + 100 * MAJOR + 10 * MINOR + n)
"""
PLAIN = """
from adding import compile_add


def add_plain(n: int):
    return compile_add(n)
"""
ASKED = {"compute_capability_major": 9, "compute_capability_minor": 0, "multiprocessor_count": 132}


def packages(folder: Path) -> Path:
    """``asking`` and ``plain``, both of which use the same helper module."""
    for package, text in {"asking": ASKING, "plain": PLAIN}.items():
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
        (folder / package / "kernels.py").write_text(text)
    (folder / "adding.py").write_text(HEAD)
    return folder


def artifacts(cache: Path, op: str) -> list[Mapping[str, Any]]:
    return [artifact.to_json() for artifact in Cache(cache).op(op).artifacts]


@pytest.mark.slow
def test_what_one_package_asks_at_import_stays_with_it(tmp_path: Path) -> None:
    """The same bytes whoever comes first and however many workers there are; keys that know whose answers they hold."""
    folder = packages(tmp_path / "src")
    kernels = {"asking.kernels:add": [1, 2], "plain.kernels:add_plain": [1]}
    backwards = dict(reversed(kernels.items()))
    caches = []
    for number, (order, jobs) in enumerate([(kernels, 1), (backwards, 2)]):
        caches.append(tmp_path / f"cache{number}")
        done = precast(
            tmp_path / f"store{number}", "build", manifest(folder, order), "-o", caches[-1], "-j", jobs, "--json"
        )
        assert done.returncode == 0, done.stderr
        assert events(done)[-1]["built"] == 3
        assert tree(caches[-1]) == tree(caches[0]), (order, jobs)

    asking, plain = artifacts(caches[0], "user.add"), artifacts(caches[0], "user.add_plain")
    assert [a["provenance"]["assumed"] for a in asking] == [ASKED, ASKED]
    assert ["assumed" in a["provenance"] for a in plain] == [False]

    other = precast(
        tmp_path / "store0", "build", manifest(folder, kernels), "-o", tmp_path / "H20", "-j", 1, "--json",
        "--profile", "H20",
    )  # fmt: skip
    assert other.returncode == 0, other.stderr
    assert {e["variant"]["op"] for e in events(other) if e["event"] == "built"} == {"user.add"}
    assert artifacts(tmp_path / "H20", "user.add_plain") == plain
    assert {a["provenance"]["assumed"]["multiprocessor_count"] for a in artifacts(tmp_path / "H20", "user.add")} == {78}
    assert {a["key"] for a in artifacts(tmp_path / "H20", "user.add")}.isdisjoint(a["key"] for a in asking)

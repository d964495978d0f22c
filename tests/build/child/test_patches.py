"""A library that patches the compiler at its import reaches only the kernels that import it themselves."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.helpers.builds import events, manifest, module, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

# As quack does: it adds what kernels then use, and it changes what others use.
LIBRARY = """
import cutlass.cute as cute

cute.one_more = lambda value: value + 1
size = cute.size
cute.size = lambda tensor, **named: size(tensor, **named) - 1
"""
NEEDING = "import cutlass.cute as cute\ndef needing(n: int):\n    return compile_add(cute.one_more(n))\n"
IMPORTING = "import patching\n" + NEEDING.replace("needing", "importing")
LAZY = "def lazy(n: int):\n    import patching\n    return compile_add(n)\n"
PLAIN = "def plain(n: int):\n    return compile_add(n)\n"


def project(folder: Path) -> tuple[Path, dict[str, str]]:
    """Modules that import the library, and others that do not; the library is installed."""
    site = folder / "venv" / "site-packages"
    site.mkdir(parents=True)
    (site / "patching.py").write_text(LIBRARY)
    for name, text in {"importing": IMPORTING, "lazy": LAZY, "plain": PLAIN, "needing": NEEDING}.items():
        module(folder / "src", name, text)
    return folder / "src", {"PYTHONPATH": str(site)}


def blobs(cache: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(cache).items() if name.startswith("blobs/")}


def test_a_variant_has_the_same_bytes_alone_and_in_any_company(tmp_path: Path) -> None:
    source, environment = project(tmp_path)
    names = ("plain", "importing", "lazy")
    alone: dict[str, bytes] = {}
    for name in names:
        cache = tmp_path / f"alone_{name}"
        done = precast(tmp_path / name, "build", manifest(source, {f"{name}:{name}": [1]}), "-o", cache, **environment)
        assert done.returncode == 0, done.stderr
        alone |= blobs(cache)
    for number, order in enumerate(itertools.permutations(names)):
        mine, cache = manifest(source, {f"{name}:{name}": [1] for name in order}), tmp_path / f"cache{number}"
        done = precast(tmp_path / f"store{number}", "build", mine, "-o", cache, "-j", 1, **environment)
        assert done.returncode == 0, done.stderr
        assert blobs(cache) == alone, order


def test_a_kernel_that_fails_alone_fails_beside_a_neighbour(tmp_path: Path) -> None:
    source, environment = project(tmp_path)
    kernels = {"importing:importing": [1], "needing:needing": [1]}
    done = precast(
        tmp_path / "store", "build", manifest(source, kernels), "-o", tmp_path / "cache", "-j", 1, "--json",
        **environment,
    )  # fmt: skip
    assert done.returncode == 1
    failed = [event for event in events(done) if event["event"] == "failed"]
    assert [event["variant"]["op"] for event in failed] == ["user.needing"]
    assert "one_more" in json.dumps(failed)

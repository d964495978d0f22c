"""What an installed package changes at its import reaches only the kernels that import it themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.builds import events, manifest, module, new_store, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]


@pytest.fixture(autouse=True)
def stores(tmp_path: Path) -> None:
    for name in ("plain", "importing", "lazy", "store", "store0", "store1"):
        new_store(tmp_path / name)


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
    return folder / "src", {"PYTHONPATH": f"{site}{os.pathsep}{os.environ['PYTHONPATH']}"}


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
    for number, order in enumerate((names, names[::-1])):  # each before each other
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


# What a package may change beside the compiler, and a kernel whose bytes show it.
CHANGES = """
import builtins, codecs, decimal, math, os, sys, warnings
import other

os.environ["ACME"] = "1"
os.chdir("/usr")
os.umask(0o77)
sys.setrecursionlimit(5000)
decimal.getcontext().prec = 5
warnings.simplefilter("error")
math.more = builtins.more = 1
other.SIZE = 1
other.LIST.append(1)
class Registered(other.Base): pass
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "vendored"))
codecs.register(lambda name: codecs.lookup("utf-8") if name == "acme" else None)
"""
OTHER = "SIZE = 0\nLIST = []\nclass Base: pass\n"
SEEING = """
import builtins, decimal, math, os, sys, warnings
import other

def seeing(n: int):
    try: "".encode("acme"); found = 1
    except LookupError: found = 0
    seen = [
        "ACME" in os.environ, "patching" in sys.modules, sys.getrecursionlimit() == 5000, found,
        decimal.getcontext().prec == 5, warnings.filters[0][0] == "error", hasattr(math, "more"), other.SIZE,
        hasattr(builtins, "more"), len(other.LIST), len(other.Base.__subclasses__()), "vendored" in sys.path[0],
    ]
    return compile_add(sum(bool(one) << number for number, one in enumerate(seen)) + n)
"""
NEIGHBOUR = "import other\nimport patching\ndef early(n: int):\n    return compile_add(n)\n"


def test_a_variant_sees_nothing_that_a_package_of_another_kernel_has_changed(tmp_path: Path) -> None:
    source, environment = project(tmp_path)
    site = Path(environment["PYTHONPATH"].partition(os.pathsep)[0])
    (site / "patching.py").write_text(CHANGES)
    (site / "other.py").write_text(OTHER)
    for name, text in {"early": NEIGHBOUR, "seeing": SEEING}.items():
        module(source, name, text)
    found = []
    for number, names in enumerate((["seeing"], ["early", "seeing"])):
        mine = manifest(source, {f"{name}:{name}": [1] for name in names})
        done = precast(
            tmp_path / f"store{number}", "build", mine, "-o", tmp_path / f"cache{number}", "-j", 1, "--json",
            **environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [event["variant"]["op"] for event in events(done)[:-1]][-1] == "user.seeing"  # after its neighbour
        index = json.loads(tree(tmp_path / f"cache{number}")["ops/user.seeing.json"])
        found.append([artifact["blob"]["sha256"] for artifact in index["artifacts"]])
    assert found[0] == found[1]

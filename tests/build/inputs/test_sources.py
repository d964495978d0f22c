"""What a key counts of a source: all that the function can reach in its own package, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.build.disk.memo import Memo
from precast.build.errors import ObjectError
from precast.build.inputs.sources import SourceDigests, source_digest


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def matters(folder: Path, source: str, *changed: str) -> dict[str, bool]:
    """For each file, whether a comment in it changes the digest of the source."""
    before = source_digest(source, [folder])
    found = {}
    for name in changed:
        path = folder / name
        text = path.read_bytes()
        path.write_bytes(text + b"\n# another comment\n")
        found[name] = source_digest(source, [folder]) != before
        path.write_bytes(text)
    assert source_digest(source, [folder]) == before
    return found


METADATA = "Metadata-Version: 2.1\nName: theirs-dist\n"
PACKAGE = {
    "acme/__init__.py": "",
    "acme/norm.py": "from . import tiles\nfrom .deep.more import thing\n\ndef build():\n    from acme import late\n",
    "acme/tiles.py": "import acme.cycle\n",
    "acme/cycle.py": "from acme.norm import build\n",
    "acme/late.py": "",
    "acme/deep/__init__.py": "from .. import upward\n",
    "acme/deep/more.py": "thing = 1\n",
    "acme/upward.py": "",
    "acme/other_kernel.py": "",
    "elsewhere.py": "",
}


def test_a_comment_counts_where_the_function_can_reach(tmp_path: Path) -> None:
    """Relative imports, imports in functions, cycles, packages on the way; not another kernel's module."""
    write(tmp_path, PACKAGE)
    assert matters(tmp_path, "acme.norm:build", *PACKAGE) == {
        name: name not in ("acme/other_kernel.py", "elsewhere.py") for name in PACKAGE
    }


@pytest.mark.parametrize(
    "statement",
    [
        "if x:\n    pass\nelse:\n    import late",
        "try:\n    pass\nexcept OSError:\n    import late",
        "try:\n    pass\nfinally:\n    import late",
        "for x in y:\n    pass\nelse:\n    import late",
        "with x:\n    import late",
        "match x:\n    case 1:\n        import late",
        "class X:\n    async def y(self):\n        import late",
    ],
    ids=["else", "except", "finally", "for", "with", "match", "method"],
)
def test_an_import_counts_wherever_it_stands(tmp_path: Path, statement: str) -> None:
    write(tmp_path, {"norm.py": f"{statement}\n", "late.py": ""})
    assert matters(tmp_path, "norm:build", "late.py") == {"late.py": True}


def test_a_module_that_is_imported_by_a_text_or_by_a_star_counts(tmp_path: Path) -> None:
    code = "import importlib\nimportlib.import_module('one')\n__import__('two')\nfrom pk import *\n"
    write(
        tmp_path, {"norm.py": code, "one.py": "", "two.py": "", "pk/__init__.py": "", "pk/three.py": "", "four.py": ""}
    )
    expected = {"one.py": True, "two.py": True, "pk/three.py": True, "four.py": False}
    assert matters(tmp_path, "norm:f", *expected) == expected


def test_a_package_that_imports_everything_counts_whole(tmp_path: Path) -> None:
    write(tmp_path, {**PACKAGE, "acme/__init__.py": "from acme import other_kernel\n"})
    assert matters(tmp_path, "acme.norm:build", "acme/other_kernel.py") == {"acme/other_kernel.py": True}


def test_the_place_the_clock_and_the_user_do_not_count(tmp_path: Path) -> None:
    first = write(tmp_path / "here", PACKAGE)
    there = tmp_path / "deeper" / "there"
    shutil.copytree(first, there)
    for path in there.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    assert source_digest("acme.norm:build", [first]) == source_digest("acme.norm:build", [there])


def test_a_module_that_is_renamed_counts_under_its_new_name(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": "x = 1\n", "two.py": "x = 1\n"})
    assert source_digest("one:x", [tmp_path]) != source_digest("two:x", [tmp_path])


def test_namespace_packages(tmp_path: Path) -> None:
    """No __init__ on the way; what such a package has in a second folder of the path is reached too."""
    write(tmp_path / "a", {"ns/kernels/norm.py": "from ns.kernels import tiles\nimport ns.shared\n"})
    write(tmp_path / "a", {"ns/kernels/tiles.py": "", "ns/kernels/other.py": ""})
    write(tmp_path / "b", {"ns/shared.py": ""})
    search = [tmp_path / "a", tmp_path / "b"]
    before = source_digest("ns.kernels.norm:f", search)
    for name, expected in {
        "a/ns/kernels/tiles.py": True,
        "b/ns/shared.py": True,
        "a/ns/kernels/other.py": False,
    }.items():
        (tmp_path / name).write_text("# changed\n")
        after = source_digest("ns.kernels.norm:f", search)
        assert (after != before) is expected, name
        before = after


def test_a_package_inside_another_that_is_installed_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer one adds the folder to its path when it is imported; here it is not, and the inner one counts alone."""
    outer = write(tmp_path / "one", {"outer/__init__.py": "from outer import own\n", "outer/own.py": ""})
    inner = write(
        tmp_path / "two", {"outer/inner/__init__.py": "", "outer/inner/kernel.py": "from outer.inner import tiles\n"}
    )
    write(inner, {"outer/inner/tiles.py": "import outer.own\n", "outer/inner/other.py": ""})
    monkeypatch.setattr(sys, "path", [str(outer), str(inner), *sys.path])
    before = source_digest("outer.inner.kernel:f", [])
    for path, expected in {
        inner / "outer" / "inner" / "tiles.py": True,
        inner / "outer" / "inner" / "other.py": False,
        outer / "outer" / "own.py": True,  # no distribution has it
    }.items():
        path.write_text(path.read_text() + "# changed\n")
        after = source_digest("outer.inner.kernel:f", [])
        assert (after != before) is expected, path
        before = after


def test_modules_in_all_search_folders_are_the_users_own(tmp_path: Path) -> None:
    write(tmp_path / "a", {"norm.py": "import helper\n"})
    write(tmp_path / "b", {"helper.py": ""})
    before = source_digest("norm:f", [tmp_path / "a", tmp_path / "b"])
    (tmp_path / "b" / "helper.py").write_text("x = 1\n")
    assert source_digest("norm:f", [tmp_path / "a", tmp_path / "b"]) != before


@pytest.mark.parametrize("text", ["def broken(:\n", "\0", "match = = 3\n"])
def test_a_file_that_is_no_python_counts_by_its_content(tmp_path: Path, text: str) -> None:
    """It may be behind a try, or for another Python; importing it fails with the reason."""
    write(tmp_path, {"norm.py": "try:\n    import odd\nexcept Exception: pass\n", "odd.py": text})
    assert matters(tmp_path, "norm:f", "odd.py") == {"odd.py": True}


def test_imports_beyond_the_top_and_of_nothing_are_no_trouble(tmp_path: Path) -> None:
    write(tmp_path, {"norm.py": "from .... import far\nimport not_there.at_all\nfrom os import path\n"})
    assert len(source_digest("norm:f", [tmp_path])) == 64


def test_a_compiled_module_counts_by_its_content(tmp_path: Path) -> None:
    from importlib.machinery import EXTENSION_SUFFIXES

    name = f"acme/fast{EXTENSION_SUFFIXES[0]}"
    write(tmp_path, {"acme/__init__.py": "", "acme/norm.py": "from . import fast\n", name: "ELF"})
    assert matters(tmp_path, "acme.norm:f", name) == {name: True}


def test_a_module_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, {"acme/__init__.py": ""})
    for source in ("nowhere:f", "acme.nowhere:f"):
        with pytest.raises(ObjectError, match=r"there is no module '.*nowhere': install its distribution, add"):
            source_digest(source, [tmp_path])


def test_the_version_of_someone_elses_package_counts(tmp_path: Path) -> None:
    """Read as it is installed: a folder of the path with its metadata beside it."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from precast.build.inputs.sources import source_digest\n"
        "print(source_digest('norm:f', [Path(sys.argv[2])]))"
    )

    def digest(site: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, site, tmp_path / "mine"], capture_output=True, text=True, check=True
        )
        return done.stdout

    write(tmp_path / "mine", {"norm.py": "import theirs\n"})
    for number, (version, text) in enumerate([("1.0", "x = 1\n"), ("1.0", "x = 2\n"), ("1.1", "x = 1\n")]):
        write(
            tmp_path / str(number),
            {
                "theirs/__init__.py": text,
                f"theirs_dist-{version}.dist-info/METADATA": f"{METADATA}Version: {version}\n",
                f"theirs_dist-{version}.dist-info/RECORD": "theirs/__init__.py,,\n",
            },
        )
    first, same_version, other_version = (digest(tmp_path / str(n)) for n in range(3))
    assert first == same_version
    assert first != other_version


def test_a_distribution_that_shares_a_name_counts_only_where_it_is_used(tmp_path: Path) -> None:
    """Two distributions fill one top module; the kernel imports from one of them."""
    site = tmp_path / "site"
    for part in ("used", "unused"):
        info = f"shared_{part}-1.0.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: shared-{part}\nVersion: 1.0\n"
        record = f"shared/{part}.py,,\n{info}/METADATA,,\n"
        write(site, {f"shared/{part}.py": "", f"{info}/METADATA": metadata, f"{info}/RECORD": record})
    write(tmp_path / "mine", {"norm.py": "import shared.used\n"})
    script = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from precast.build.inputs.sources import source_digest
for part in ("unused", "used"):
    before = source_digest("norm:f", [Path(sys.argv[2])])
    info = Path(sys.argv[1], f"shared_{part}-1.0.dist-info")
    info.rename(str(info).replace("1.0", "2.0"))
    print(source_digest("norm:f", [Path(sys.argv[2])]) != before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, site, tmp_path / "mine"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_an_adapter_counts_for_what_it_may_take(tmp_path: Path) -> None:
    """No import statement names it: functions of its name, and classes that derive from one of a distribution."""
    site = tmp_path / "site"
    for name, module in (("acme-ops", "acme_ops"), ("acme-adapter", "acme_adapter")):
        info = f"{module}-1.0.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        write(site, {f"{module}.py": "", f"{info}/METADATA": metadata, f"{info}/RECORD": f"{module}.py,,\n"})
    points = "[precast.adapters]\nbuild_graph = acme_adapter:f\nacme_ops.Op = acme_adapter:of_class\n"
    write(site, {"acme_adapter-1.0.dist-info/entry_points.txt": points})
    mine = write(tmp_path / "mine", {"add.py": "from acme_ops import Op\nclass Add(Op): ...\n", "plain.py": ""})
    script = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from precast.build.inputs.sources import SourceDigests
sources = ["add:Add", "plain:build_graph", "plain:f", "acme_ops:Op"]
old = SourceDigests([Path(sys.argv[2])])
before = [old.digest(source) for source in sources]
Path(sys.argv[1], "acme_adapter.py").write_text("x = 1")
new = SourceDigests([Path(sys.argv[2])])
for source, digest in zip(sources, before):
    print(new.digest(source) != digest, old.changed(source) is not None)
"""
    done = subprocess.run([sys.executable, "-c", script, site, mine], capture_output=True, text=True, check=True)
    taken = ["True", "True"]
    assert done.stdout.split() == [*taken, *taken, "False", "False", *taken]


def test_an_editable_install_is_found_through_its_finder(tmp_path: Path) -> None:
    """Setuptools' editable installs put a finder on sys.meta_path, and no folder on sys.path."""
    write(tmp_path / "checkout", {"edited/__init__.py": "", "edited/norm.py": "from edited import tiles\n"})
    write(tmp_path / "checkout", {"edited/tiles.py": ""})
    script = f"""
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from precast.build.inputs.sources import source_digest

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{str(tmp_path / "checkout")!r}]) if name == "edited" else None

sys.meta_path.append(Finder)
before = source_digest("edited.norm:f", [])
Path({str(tmp_path / "checkout/edited/tiles.py")!r}).write_text("x = 1")
assert source_digest("edited.norm:f", []) != before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_file_that_changes_during_a_build_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, {"norm.py": "import helper\n", "helper.py": ""})
    sources = SourceDigests([tmp_path])
    before = sources.digest("norm:f")
    assert sources.changed("norm:f") is None
    (tmp_path / "helper.py").write_text("x = 1\n")
    assert sources.changed("norm:f") == (tmp_path / "helper.py").resolve()
    assert sources.digest("norm:f") == before


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_notes_make_it_quicker_and_nothing_else(tmp_path: Path, damage: bytes | None) -> None:
    folder, notes = write(tmp_path / "src", PACKAGE), Memo(tmp_path / "notes")
    plain = source_digest("acme.norm:build", [folder])
    assert SourceDigests([folder], notes).digest("acme.norm:build") == plain
    written = list((tmp_path / "notes" / "reached").iterdir())
    assert written
    for path in written:
        if damage is None:
            Memo(tmp_path / "notes").put("reached", path.stem, [["not", "imports"]])
        else:
            path.write_bytes(damage)
    assert SourceDigests([folder], notes).digest("acme.norm:build") == plain


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20), touched=st.integers(0, 6))
def test_exactly_what_is_reached_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edges: set[tuple[int, int]], touched: int
) -> None:
    """Any graph of modules that import each other: a change counts if and only if there is a way to it."""
    monkeypatch.setattr(sys, "path", [])  # each digest would read the lists of all installed distributions
    folder = tmp_path / "graph"
    forms = ("import m{0}", "from m{0} import x", "def f():\n    import m{0}", "if 0:\n    from m{0} import *")
    for node in range(7):
        lines = [forms[(a + b) % len(forms)].format(b) for a, b in sorted(edges) if a == node]
        write(folder, {f"m{node}.py": "\n".join([*lines, "x = 1\n"])})
    reached, pending = set(), [0]
    while pending:
        node = pending.pop()
        if node not in reached:
            reached.add(node)
            pending += [b for a, b in edges if a == node]
    assert matters(folder, "m0:x", f"m{touched}.py") == {f"m{touched}.py": touched in reached}


def test_an_environment_inside_the_folder_of_the_manifest_is_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tutorial's layout: ``path: .`` beside ``.venv``. Its distributions count by their versions."""
    write(tmp_path, {"kernel.py": "import tiles\nimport theirs.norm\n", "tiles.py": "", "local/theirs/norm.py": ""})
    site = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    write(site, {"theirs/__init__.py": "import more\n", "theirs/norm.py": "SIZE = 1\n", "more.py": ""})
    write(site, {"theirs-1.0.dist-info/RECORD": "theirs/__init__.py,,\ntheirs/norm.py,,\nmore.py,,\n"})
    monkeypatch.syspath_prepend(site)
    sources = SourceDigests([tmp_path])
    before = sources.digest("kernel:build")
    assert sources.files("kernel:build") == (tmp_path / "kernel.py", tmp_path / "tiles.py")
    assert sources.distributions("kernel:build") == ("theirs",)
    (site / "theirs" / "norm.py").write_text("SIZE = 2\n")
    assert SourceDigests([tmp_path]).digest("kernel:build") == before
    (tmp_path / "tiles.py").write_text("SIZE = 2\n")
    assert SourceDigests([tmp_path]).digest("kernel:build") != before

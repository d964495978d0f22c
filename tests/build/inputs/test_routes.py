"""Each way in which a compilation reads something: its inputs change when, and only when, that thing changes."""

from __future__ import annotations

import os
import py_compile
import shutil
from pathlib import Path

import pytest

from precast.build.child.observe.loaded_modules import loaded_libraries
from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, Step, check_route, write


def install(name: str, version: str, files: dict[str, str]) -> Step:
    return lambda project: project.install(name, version, files)


def both(*steps: Step) -> Step:
    return lambda project: [step(project) for step in steps]


def upgrade(project: ObservedProject) -> None:
    shutil.rmtree(project.site / "inner-1.0.dist-info")
    project.install("inner", "1.1", {"inner/__init__.py": ""})


def editable(project: ObservedProject) -> None:
    """As pip installs a checkout: a folder on the path, and a list without any of its modules."""
    project.write({"acme.py": "TILE = 1\n"}, project.folder / "checkout")
    project.install("acme", "1.0", {"__editable__.acme-1.0.pth": f"{project.folder / 'checkout'}\n"})


def small_library(project: ObservedProject) -> Path:
    # Not any library that this process has: some cannot be loaded alone.
    mathematics = next(path for path in loaded_libraries() if Path(path).name.startswith("libm."))
    return Path(shutil.copy(mathematics, project.search / "libtiles.so"))


def extend(project: ObservedProject) -> None:
    with (project.search / "libtiles.so").open("ab") as file:
        file.write(b"\0")


LIBRARY = HERE + "import ctypes\nctypes.CDLL(str(here / 'libtiles.so'))\n"
COMPUTED = "import importlib\nfor name in ['tiles_' + str(n) for n in (64,)]: importlib.import_module(name)\n"
ROUTES = {
    "variable": Route(
        "import os\nos.environ.get('TILE')\n",
        lambda project: project.variables.update(TILE="64"),
        {"variable:TILE"},
    ),
    "variable that is removed": Route(
        "import os\n'TILE' in os.environ\n",
        lambda project: project.variables.pop("TILE"),
        {"variable:TILE"},
        lambda project: project.variables.update(TILE=""),
    ),
    "all variables": Route(
        "import os\nfound = dict(os.environ)\n",
        lambda project: project.variables.update(ANY="1"),
        {"variables"},
    ),
    "data": Route(
        HERE + "(here / 'tiles.json').read_text()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that was not there": Route(
        HERE + "try: open(here / 'tiles.json')\nexcept OSError: pass\n",
        write("tiles.json", ""),
        {"file:search/tiles.json"},
    ),
    "folder": Route(
        HERE + "sorted((here / 'tiles').glob('*.json'))\n",
        write("tiles/b.json", ""),
        {"folder:search/tiles"},
        write("tiles/a.json", ""),
    ),
    "library": Route(LIBRARY, extend, {"file:search/libtiles.so"}, small_library),
    "program": Route(
        HERE + "import subprocess\nsubprocess.run([here / 'tool'])\n",
        write("tool", "#!/bin/sh\nexit 1\n"),
        {"file:search/tool"},
        both(write("tool", "#!/bin/sh\n"), lambda project: (project.search / "tool").chmod(0o700)),
    ),
    "import": Route("import tiles\n", write("tiles.py", "x = 2\n"), {"module:tiles"}, write("tiles.py", "x = 1\n")),
    "import in a package": Route(
        "from pk.deep import tiles\n",
        write("pk/deep/__init__.py", "x = 2\n"),
        {"module:pk.deep"},
        both(write("pk/__init__.py", ""), write("pk/deep/__init__.py", ""), write("pk/deep/tiles.py", "")),
    ),
    "importlib with a literal": Route(
        "import importlib\nimportlib.import_module('tiles')\n",
        write("tiles.py", "x = 2\n"),
        {"module:tiles"},
        write("tiles.py", ""),
    ),
    "importlib with a computed name": Route(
        COMPUTED, write("tiles_64.py", "x = 2\n"), {"module:tiles_64"}, write("tiles_64.py", "")
    ),
    "a module of PYTHONPATH": Route(
        "import acme\n",
        write("acme.py", "x = 2\n", "tools"),
        {"module:acme"},
        write("acme.py", "", "tools"),
    ),
    "a module of a .pth file": Route(
        "import acme\n",
        lambda project: project.write({"acme.py": "x = 2\n"}, project.folder / "lib"),
        {"module:acme"},
        both(
            lambda project: project.write({"acme.py": ""}, project.folder / "lib"),
            lambda project: project.write({"acme.pth": f"{project.folder / 'lib'}\n"}, project.site),
        ),
    ),
    "a module of a folder that the code adds": Route(
        HERE + "import sys\nsys.path.insert(0, str(here / 'vendor'))\nimport acme\n",
        write("vendor/acme.py", "x = 2\n"),
        {"file:search/vendor/acme.py"},
        write("vendor/acme.py", ""),
    ),
    "a module that hides another in a folder that the code adds": Route(
        HERE + "import sys\nsys.path.insert(0, str(here / 'vendor'))\nimport acme\n",
        write("vendor/acme.cpython.so", ""),
        {"folder:search/vendor"},
        write("vendor/acme.py", ""),
    ),
    "a module that is run by its path": Route(
        HERE + "import runpy\nrunpy.run_path(str(here / 'tiles.py'))\n",
        write("tiles.py", "x = 2\n"),
        {"file:search/tiles.py"},
        write("tiles.py", ""),
    ),
    "star": Route(
        "from pk import *\n",
        write("pk/tiles.py", "x = 2\n"),
        {"module:pk.tiles"},
        both(write("pk/__init__.py", "__all__ = ['tiles']\n"), write("pk/tiles.py", "")),
    ),
    "a helper named like a standard module": Route(
        "import colorsys\n", write("colorsys.py", "x = 2\n"), {"module:colorsys"}, write("colorsys.py", "")
    ),
    "a standard module that a helper hides now": Route(
        "import colorsys\n", write("colorsys.py", ""), {"module:colorsys"}
    ),
    "a module that an earlier folder hides now": Route(
        "import acme\n", write("acme.py", ""), {"module:acme"}, write("acme.py", "", "tools")
    ),
    "an import that failed": Route(
        "try: import fast_path\nexcept ImportError: pass\n", write("fast_path.py", ""), {"module:fast_path"}
    ),
    "a search for a module": Route(
        "import importlib.util\nimportlib.util.find_spec('fast_path')\n",
        write("fast_path.py", ""),
        {"module:fast_path"},
    ),
    "an import that raised": Route(
        "try: import broken\nexcept RuntimeError: pass\n",
        write("broken.py", "raise RuntimeError('2')\n"),
        {"file:search/broken.py"},
        write("broken.py", "raise RuntimeError('1')\n"),
    ),
    "an editable dependency": Route(
        "import acme\n",
        lambda project: project.write({"acme.py": "TILE = 2\n"}, project.folder / "checkout"),
        {"module:acme"},
        editable,
    ),
    "an installed package edited in place": Route(
        "import acme\n",
        write("acme/tiles.py", "x = 2\n", "site"),  # a module that was not even imported
        {"distribution:acme"},
        install("acme", "1.0", {"acme/__init__.py": "", "acme/tiles.py": "x = 1\n"}),
    ),
    "a transitive dependency upgraded": Route(
        "import outer\n",
        upgrade,
        {"distribution:inner"},
        both(
            install("outer", "1.0", {"outer.py": "import inner\n"}),
            install("inner", "1.0", {"inner/__init__.py": ""}),
        ),
    ),
    "a version": Route(
        "import importlib.metadata as m\nm.version('inner')\n",
        upgrade,
        {"distribution:inner"},
        install("inner", "1.0", {"inner/__init__.py": ""}),
    ),
    "a distribution that was not there": Route(
        "import importlib.metadata as m\ntry: m.version('In_ner')\nexcept m.PackageNotFoundError: pass\n",
        install("in.ner", "1.0", {"inner/__init__.py": ""}),
        {"distribution:in-ner"},
    ),
    "a file put into site-packages": Route(
        "import loose\n", write("loose.py", "x = 2\n", "site"), {"module:loose"}, write("loose.py", "", "site")
    ),
    "a resource": Route(
        "import importlib.resources\nimportlib.resources.files('pk').joinpath('tiles.json').read_text()\n",
        write("pk/tiles.json", "[2]"),
        {"file:search/pk/tiles.json"},
        both(write("pk/__init__.py", ""), write("pk/tiles.json", "[1]")),
    ),
    "data by its package": Route(
        "import pkgutil\npkgutil.get_data('pk', 'tiles.json')\n",
        write("pk/tiles.json", "[2]"),
        {"file:search/pk/tiles.json"},
        both(write("pk/__init__.py", ""), write("pk/tiles.json", "[1]")),
    ),
    "home": Route(
        "from pathlib import Path\n(Path.home() / '.config/tiles').read_text()\n",
        write(".config/tiles", "2", "home"),
        {"file:~/.config/tiles"},
        write(".config/tiles", "1", "home"),
    ),
}


@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path), everything="all" in name)


def test_a_generated_file_of_the_same_time_and_size(tmp_path: Path) -> None:
    """Python would run its old byte code."""
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "from made import VALUE\n", "made.py": "VALUE = 1\n"})
    made = project.search / "made.py"
    py_compile.compile(str(made))
    before = made.stat()
    inputs = project.inputs()
    assert project.value == 1
    made.write_text("VALUE = 2\n")
    os.utime(made, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.changed(inputs) == ("module:made",)
    project.inputs()
    assert project.value == 2


def test_no_byte_code_is_written(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import tiles\n", "tiles.py": ""})
    project.inputs()
    assert not list(project.search.rglob("__pycache__"))


def test_the_inputs_are_the_same_elsewhere(tmp_path: Path) -> None:
    """In another checkout, with another home and another environment of Python."""
    found = []
    for place in ("here", "deeper/there"):
        (tmp_path / place).mkdir(parents=True)
        project = ObservedProject(tmp_path / place)
        project.write({"kernel.py": HERE + "import acme, tool, tiles\n(here / 'a.json').read_text()\n"})
        project.write({"tiles.py": "", "a.json": ""})
        project.write({"tool.py": "from pathlib import Path\n(Path.home() / '.rc').read_text()\n"}, project.tools)
        project.write({".rc": ""}, project.home)
        project.install("acme", "1.0", {"acme.py": ""}, "../../bin/acme,sha256=AAAA,3")
        found.append(project.inputs().answers)
    differing = {name for name in found[0] if found[0][name] != found[1].get(name)}
    assert differing == {"variable:HOME"}  # the author's own code asked for it

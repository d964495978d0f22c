"""What is queried without being opened, temporary files, and folders that are not there yet: the inputs notice it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.build.inputs.input_rules import InputRules
from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, check_route, write


def link(target: str) -> Callable[[ObservedProject], object]:
    def make(project: ObservedProject) -> None:
        (project.search / "link").unlink(missing_ok=True)
        (project.search / "link").symlink_to(target)

    return make


def portion(name: str) -> Callable[[ObservedProject], object]:
    return lambda project: project.write({"spaces/one.py": ""}, getattr(project, name))


def both(*steps: Callable[[ObservedProject], object]) -> Callable[[ObservedProject], object]:
    return lambda project: [step(project) for step in steps]


def executable(project: ObservedProject) -> None:
    project.write({"bin/tool": "#!/bin/sh\n"}, project.home)
    (project.home / "bin/tool").chmod(0o700)


EXISTS = {"exists:search/tiles.json"}
MADE, GROWN = write("tiles.json", "[]"), write("tiles.json", "[1]")
ROUTES = {
    "os.path.exists": Route(HERE + "import os\nos.path.exists(here / 'tiles.json')\n", MADE, EXISTS),
    "os.path.isfile": Route(HERE + "import os\nos.path.isfile(here / 'tiles.json')\n", MADE, EXISTS),
    "os.path.isdir": Route(
        HERE + "import os\nos.path.isdir(here / 'tiles')\n", write("tiles/a.json", ""), {"exists:search/tiles"}
    ),
    "os.path.lexists": Route(HERE + "import os\nos.path.lexists(here / 'tiles.json')\n", MADE, EXISTS),
    "os.access": Route(HERE + "import os\nos.access(here / 'tiles.json', os.R_OK)\n", MADE, EXISTS),
    "Path.exists": Route(HERE + "(here / 'tiles.json').exists()\n", MADE, EXISTS),
    "Path.is_file": Route(HERE + "(here / 'tiles.json').is_file()\n", MADE, EXISTS),
    "Path.is_dir": Route(HERE + "(here / 'tiles').is_dir()\n", write("tiles/a.json", ""), {"exists:search/tiles"}),
    "a file that is removed": Route(
        HERE + "(here / 'tiles.json').exists()\n", lambda p: (p.search / "tiles.json").unlink(), EXISTS, MADE
    ),
    "existence in a thread": Route(
        HERE + "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool: list(pool.map(Path.exists, [here / 'tiles.json']))\n", MADE, EXISTS,
    ),
    "a size": Route(HERE + "(here / 'tiles.json').stat().st_size\n", GROWN, {"file:search/tiles.json"}, MADE),
    "os.path.getsize": Route(
        HERE + "import os\nos.path.getsize(here / 'tiles.json')\n", GROWN, {"file:search/tiles.json"}, MADE
    ),
    "os.stat": Route(HERE + "import os\nos.stat(here / 'tiles.json')\n", GROWN, {"file:search/tiles.json"}, MADE),
    "a link": Route(HERE + "import os\nos.readlink(here / 'link')\n", link("b"), {"link:search/link"}, link("a")),
    "os.listdir": Route(
        HERE + "import os\nos.listdir(here / 'tiles')\n",
        write("tiles/b.json", ""), {"folder:search/tiles"}, write("tiles/a.json", ""),
    ),
    "os.scandir": Route(
        HERE + "import os\nlist(os.scandir(here / 'tiles'))\n",
        write("tiles/b.json", ""), {"folder:search/tiles"}, write("tiles/a.json", ""),
    ),
    "glob": Route(
        HERE + "import glob\nglob.glob(str(here / 'tiles/*.json'))\n",
        write("tiles/b.json", ""), {"folder:search/tiles"}, write("tiles/a.json", ""),
    ),
    "os.walk": Route(
        HERE + "import os\nlist(os.walk(here / 'tiles'))\n",
        write("tiles/deep/b.json", ""), {"folder:search/tiles/deep"}, write("tiles/deep/a.json", ""),
    ),
    "a folder that is not there yet": Route(
        HERE + "import sys\nsys.path.insert(0, str(here / 'vendor'))\ntry: import faster\nexcept ImportError: pass\n",
        write("vendor/other.py", ""), {"folder:search/vendor"},
    ),
    "a portion of a namespace package": Route(
        "import spaces\n", portion("tools"), {"module:spaces"}, portion("search")
    ),
    "a module that Python imports when it starts": Route(
        "", write("usercustomize.py", "x = 1\n", "tools"), {"module:usercustomize"}
    ),
    "a program that is looked up": Route(
        "import shutil\nshutil.which('tool')\n", executable, {"program:tool"},
        lambda project: project.variables.update(PATH=f"{project.home}/bin:{os.environ['PATH']}"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path))


TEMPORARY = {
    "a temporary file": "open({0!r} + '/tiles.json').read()\n",
    "a module in the temporary folder": "import sys\nsys.path.insert(0, {0!r})\nimport tiles\n",
    "whether a temporary file exists": "import os\nos.path.exists({0!r} + '/switch')\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPORARY)
def test_temporary_files_that_were_there_count(name: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    folder = project.temporary / "else"
    project.write({"kernel.py": TEMPORARY[name].format(str(folder))})
    project.write({"tiles.json": "[1]", "tiles.py": "x = 1\n"}, folder)
    inputs = project.inputs()
    assert project.changed(inputs) == ()
    project.write({"tiles.json": "[2]", "tiles.py": "x = 2\n", "switch": ""}, folder)
    assert project.changed(inputs) != ()


@pytest.mark.slow
def test_what_a_module_makes_itself_is_not_an_input(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write(
        {
            "kernel.py": HERE + "import tempfile\n"
            "with tempfile.TemporaryDirectory() as folder:\n"
            "    made = Path(folder) / 'deep'\n    made.mkdir()\n    (made / 'x').exists()\n"
            "    (made / 'x').write_text('1')\n    (made / 'x').read_text()\n"
            "with tempfile.NamedTemporaryFile() as file: Path(file.name).exists()\n"
            "out = here / 'generated'\nif not out.exists(): out.write_text('1')\n"
            "import shutil\nfor old in (here / 'generated_before', here / 'generated_too'):\n"
            "    if old.exists(): shutil.rmtree(old) if old.is_dir() else old.unlink()\n",
            "generated_before/x": "", "generated_too": "",
        }
    )  # fmt: skip
    inputs = project.inputs()
    assert not any("temporary" in name or "generated" in name for name in inputs.names), inputs.names


@pytest.mark.slow
def test_a_path_that_is_resolved_is_not_an_input(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import inspect, os\nfrom pathlib import Path\nPath(__file__).resolve()\n"
                   "os.path.realpath(__file__)\ndef f(): ...\ninspect.getsource(f)\n"})  # fmt: skip
    assert not [name for name in project.inputs().names if name.startswith(("exists", "link", "file:/"))]


@pytest.mark.slow
def test_a_generator_that_writes_the_same_again_is_no_change(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": HERE + "text = (here / 'made.txt').read_text()\n", "made.txt": "1"})
    observation = project.observe()
    project.write({"made.txt": "1"})
    names = InputRules(project.answers()).inputs_of(observation)[0].names
    assert "file:search/made.txt" in names


@pytest.mark.slow
def test_a_list_of_distributions_changes_with_their_entry_points(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import importlib.metadata as m\nm.entry_points()\n"})
    project.install("acme", "1.0", {"acme.py": ""})
    inputs = project.inputs()
    project.write({"other.py": ""}, project.site)
    assert project.changed(inputs) == ()
    project.write({"acme-1.0.dist-info/entry_points.txt": "[tiles]\nsmall = acme:small\n"}, project.site)
    assert "distributions" in project.changed(inputs)
    inputs = project.inputs()
    project.install("more", "1.0", {"more.py": ""})
    assert project.changed(inputs) == ("distributions",)

"""The table of docs/building.md: of each kind of change, what ``precast plan --explain`` says, word for word."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.builds import module, precast
from tests.helpers.inputs.project import Project as Folders
from tests.helpers.pages import blocks

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

READING = {
    "data": "    import pathlib\n    n = int((pathlib.Path(__file__).parent / 'tile.txt').read_text())",
    "helper": "    import importlib\n    n = importlib.import_module('shapes').SIZE",
    "variable": "    import os\n    n = int(os.environ['TILE'])",
    "package": "    import importlib\n    n = importlib.import_module('acme_tiles').SIZE",
    "gpu": "    from cutlass.utils import HardwareInfo\n    n = HardwareInfo().get_max_active_clusters(2)",
}


class Project(Folders):
    """A function for each kind of thing that a kernel depends on, and builds of all of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.write({"tile.txt": "128", "shapes.py": "SIZE = 128\n"})
        self.install("acme_tiles", "1.0", {"acme_tiles/__init__.py": "SIZE = 128\n"})
        self.profile, self.functions = "H200", [*READING]
        self.env = dict.fromkeys([*READING, "new"], "{}") | {"variable": '{TILE: "64"}'}
        for name, lines in READING.items():
            module(self.search, name, f"def {name}(of: int):\n{lines}\n    return compile_add(n + of)\n")

    def add(self) -> None:
        """A function that was never built."""
        module(self.search, "new", "def new(of: int):\n    return compile_add(of)\n")
        self.functions.append("new")

    def upgrade(self) -> None:
        (self.site / "acme_tiles-1.0.dist-info").rename(self.site / "acme_tiles-1.1.dist-info")
        self.install("acme_tiles", "1.1", {"acme_tiles/__init__.py": "SIZE = 256\n"})

    def precast(self, store: str, *arguments: object) -> str:
        kernels = "".join(
            f'  - {{compile: "{name}:{name}", op: mine.{name}, config: {{of: [1]}}, env: {self.env[name]}'
            f"{', inputs: {files: tile.txt}' if name == 'data' else ''}}}\n"
            for name in self.functions
        )
        text = f"version: 1\nname: mine\ntargets: [sm_90a]\nprofiles: [{self.profile}]\npath: .\nkernels:\n{kernels}"
        (self.search / "mine.yaml").write_text(text)
        command, *more = arguments
        words = [command, self.search / "mine.yaml", *more]
        path = os.pathsep.join(filter(None, [str(self.site), os.environ.get("PYTHONPATH")]))
        done = precast(self.folder / store, *words, PYTHONPATH=path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def explain(self) -> str:
        return self.precast("store", "plan", "--explain")


CHANGES: dict[str, Callable[[Project], object]] = {
    "data": lambda p: p.write({"tile.txt": "256"}),
    "helper": lambda p: p.write({"shapes.py": "SIZE = 256\n"}),
    "variable": lambda p: p.env.update(variable='{TILE: "32"}'),
    "package": Project.upgrade,
    "gpu": lambda p: setattr(p, "profile", "H20"),
    "new": Project.add,
}


def test_every_line_of_the_page(tmp_path: Path) -> None:
    """Each change is named in its own line, and in no other."""
    (shown,) = [block for block in blocks("docs/building.md", "") if "mine.gpu" in block]
    expected = dict(re.findall(r"^(mine\.(?:\w+)\S*) for sm_90a: (.*)$", shown, re.MULTILINE))
    project = Project(tmp_path)
    project.precast("store", "build", "-o", tmp_path / "before")
    assert project.explain().count(" for sm_90a: reused\n") == len(READING)
    for change in CHANGES.values():
        change(project)
    said = project.explain()
    seen = {f"mine.{name}(of=1)": expected[f"mine.{name}(of=1)"] for name in CHANGES}
    assert dict(re.findall(r"^(mine\.\S+) for sm_90a: (.*)$", said, re.MULTILINE)) == seen
    assert shown.splitlines()[-1] == said.splitlines()[-1]
    project.precast("store", "build", "-o", tmp_path / "after")
    changed = precast(tmp_path / "store", "diff", tmp_path / "before", tmp_path / "after", "--inputs")
    assert changed.returncode == 1
    assert re.search(r"^~ file:search/tile.txt \w{12} -> \w{12}: 1 artifact of mine.data$", changed.stdout, re.M)
    assert re.search(r"^~ file:search/shapes.py \w{12} -> \w{12}: 1 artifact of mine.helper$", changed.stdout, re.M)
    assert "acme" not in changed.stdout, "what belongs to installed packages is not in an index"


def test_what_an_artifact_was_made_of(tmp_path: Path) -> None:
    """From the record where the store is here; from the index, with its digests, where it is not."""
    project = Project(tmp_path)
    project.functions = ["data", "gpu"]
    project.precast("store", "build", "-o", tmp_path / "cache")
    whole = precast(tmp_path / "store", "show", tmp_path / "cache", "mine.gpu", "--inputs").stdout
    assert "  gpu max_active_clusters_2 = 66\n" in whole
    assert re.search(r"^  distribution:nvidia-cutlass-dsl\S* = 4\.\S+ \w{64}$", whole, re.M)
    (made,) = json.loads(
        precast(tmp_path / "elsewhere", "show", tmp_path / "cache", "mine.data", "--inputs", "--json").stdout
    )
    assert "installed" not in made
    assert re.fullmatch(r"\w{16}", made["inputs"]["file:search/tile.txt"])
    text = precast(tmp_path / "elsewhere", "show", tmp_path / "cache", "mine.data", "--inputs").stdout
    assert "The store has no record of it" in text
    same = precast(tmp_path / "store", "diff", tmp_path / "cache", tmp_path / "cache", "--inputs")
    assert (same.returncode, same.stdout) == (0, "built from the same inputs\n")

"""What kernels declare comes from what their modules read: a plan notices a change, and imports them only then."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from precast.build.disk.memo import Memo
from precast.build.errors import DescribeError, ManifestError
from precast.build.plan import describer, description_cache
from precast.build.plan.describer import Description
from precast.build.plan.entry import KernelRef
from precast.build.plan.plan import Plan
from precast.build.plan.planner import plan_of, read_manifests
from precast.loader.contract.format.config import Key
from tests.helpers.attach.toy_library import write_toy_library

READ = "import json\nfrom pathlib import Path\nread = json.loads((Path(__file__).parent / 'table.json').read_text())\n"
MANIFEST = "version: 1\nname: mine\ntargets: [sm_90a]\npath: src\ninputs: {files: src/table.json}\n"
MANIFEST += "kernels:\n  - {%s, config: {m: [1, 2]}%s}\n"


@dataclass(frozen=True)
class Case:
    """A kernel's module, what the table that it reads has before and after, and what a plan then has."""

    module: str
    before: object
    after: object
    planned: tuple[object, object]
    entry: str = 'compile: "mine:made", op: user.made'
    more: str = ""


CASES = {
    "a default": Case(READ + "def made(m: int, n: int = read): ...\n", 6, 7, ([6, 6], [7, 7])),
    "a default that a pool of threads reads": Case(
        "from concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    [text] = pool.map(Path.read_text, [Path(__file__).parent / 'table.json'])\n"
        "def made(m: int, n: int = int(text)): ...\n",
        6, 7, ([6, 6], [7, 7]),
    ),
    "the choices of a Literal": Case(
        "from typing import Literal\n" + READ + "def made(m: Literal[tuple(read)], n: int = 1): ...\n",
        [1, 2], [1, 3], ([1, 1], "2"),
    ),
    "a limit of supports": Case(
        READ + "from precast.kernels import kernel\n"
        "def supports(config, target): return 'too large' if config['m'] > read else None\n"
        "@kernel(op='user.made', supports=supports)\ndef made(m: int, n: int = 1): ...\n",
        2, 1, ([1, 1], [1]), more=", skip_unsupported: true",
    ),
    "a limit that supports reads when it is called": Case(
        "from pathlib import Path\nfrom precast.kernels import kernel\n"
        "def supports(config, target):\n"
        "    most = int((Path(__file__).parent / 'table.json').read_text())\n"
        "    return 'too large' if config['m'] > most else None\n"
        "@kernel(op='user.made', supports=supports)\ndef made(m: int, n: int = 1): ...\n",
        2, 1, ([1, 1], [1]), more=", skip_unsupported: true",
    ),
}  # fmt: skip


class Project:
    def __init__(self, folder: Path, case: Case) -> None:
        self.folder = folder
        (folder / "src").mkdir()
        (folder / "src" / "mine.py").write_text(case.module)
        (folder / "mine.yaml").write_text(MANIFEST % (case.entry, case.more))
        self.notes = Memo(folder / "notes")

    def set(self, table: object) -> None:
        (self.folder / "src" / "table.json").write_text(str(table))

    def plan(self) -> Plan:
        return plan_of(read_manifests([self.folder / "mine.yaml"]), notes=self.notes)

    def planned(self) -> object:
        """The values of ``n`` that are planned; the refused value where a plan is refused."""
        try:
            return [variant.config["n"] for variant in self.plan().variants]
        except (ManifestError, DescribeError) as error:
            return next(word for word in str(error).split() if word.isdigit())


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The child processes that import kernels."""
    started: list[object] = []
    describing = describer.describing

    def counted(*arguments: Any, **named: Any) -> Any:
        started.append(arguments)
        return describing(*arguments, **named)

    monkeypatch.setattr(description_cache, "describing", counted)
    return started


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_notices_what_a_declaration_was_made_of(name: str, tmp_path: Path, importing: list[object]) -> None:
    case = CASES[name]
    project = Project(tmp_path, case)
    project.set(case.before)
    assert project.planned() == case.planned[0]
    begun = len(importing)
    assert project.planned() == case.planned[0]
    assert len(importing) == begun  # nothing has changed: nothing is imported
    project.set(case.after)
    assert project.planned() == case.planned[1]


@pytest.mark.parametrize("file", ["mine.py", "table.json"])
def test_a_declaration_that_changed_while_it_was_read_is_not_kept(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is saved, and that is undone later. The child process is a double, which reads the saved one."""
    project = Project(tmp_path, CASES["a default"])
    project.set(6)
    path = tmp_path / "src" / file
    original, default = path.read_text(), 7

    class Child:
        def describe(self, kernels: list[KernelRef]) -> dict[KernelRef, Description]:
            if default == 7:
                path.write_text(original + " ")
            keys = (Key(name="m", type="int"), Key(name="n", type="int", default=default, has_default=True))
            one = Description(op="user.made", source="mine:made", keys=keys, targets=(), declared=False)
            return dict.fromkeys(kernels, one)

    monkeypatch.setattr(description_cache, "describing", lambda *_, **__: nullcontext(Child()))
    assert project.planned() == [7, 7]
    path.write_text(original)
    default = 6
    assert project.planned() == [6, 6]
    default = 5
    assert project.planned() == [6, 6], "that one is kept"


@pytest.mark.slow
def test_a_library_that_was_edited_where_its_kernel_does_not_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard in its keys covers all of its files."""
    site = write_toy_library(tmp_path / "site", compiler=False)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr("precast.attach.library._declared", {})
    entry = '{compile: "toy_attached.kernels:compiled_alone@toy", config: {value: 2}}'
    (tmp_path / "mine.yaml").write_text(f"version: 1\nname: mine\ntargets: [sm_90a]\nkernels: [{entry}]\n")
    notes = Memo(tmp_path / "notes")

    def guard() -> object:
        (variant,) = plan_of(read_manifests([tmp_path / "mine.yaml"]), notes=notes).variants
        return variant.config["library_source"]

    before = guard()
    (site / "toy_attached" / "unreached.py").write_text("x = 1\n")
    assert guard() != before

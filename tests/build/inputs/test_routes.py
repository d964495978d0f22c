"""The ways in which a compilation may try to read something. Each is one of these:

- exact: what is read is an input, which changes when, and only when, it does;
- refused: an error names the line and what declares it; when that is declared, it is exact;
- absent: the thing is not there, so that the result is the same whatever it is; when it is declared, it is exact;
- found by a second compilation, which differs;
- not counted: what is declared differs in something that is the same for all compilations.

The kernel's module of a route sets ``VALUE``, which stands for what is compiled.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from precast.build.errors import ChangedInputError
from tests.build.inputs.import_routes import AT_THE_START, IMPORTED, NOT_IMPORTED
from tests.build.inputs.machine_routes import IMPOSSIBLE, NOT_THERE, OTHERWISE, THE_SAME, VARIABLES, other_state
from tests.build.inputs.metadata_routes import NOT_COUNTED
from tests.build.inputs.more_read_routes import MORE_READ
from tests.build.inputs.other_routes import ALWAYS_THE_SAME as FIRST_THE_SAME
from tests.build.inputs.other_routes import EXACT as FIRST_EXACT
from tests.build.inputs.other_routes import TWICE as FIRST_TWICE
from tests.build.inputs.read_routes import READ as FIRST_READ
from tests.helpers.inputs.project import Project, Server, serving
from tests.helpers.inputs.route import HEAD, MADE, C, Route, Step, linked, remove, write

READ = FIRST_READ | MORE_READ | NOT_IMPORTED | NOT_THERE
EXACT, ALWAYS_THE_SAME, TWICE = FIRST_EXACT | IMPORTED, FIRST_THE_SAME | THE_SAME, FIRST_TWICE | OTHERWISE
FAST = ("read_text", "exists", "a variable", "a program", "time.time", "an import", "vendored packages")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    """Two processes of other environments, started in other states."""
    with serving() as first, contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in VARIABLES.items():
                patch.setenv(name, value)
            second = stack.enter_context(serving(other_state))
        yield first, second


@pytest.fixture(scope="module")
def memo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is noted of the installed distributions, of which there are many."""
    return tmp_path_factory.mktemp("memo")


@pytest.fixture
def project(tmp_path: Path, memo: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Without a compiler, which no route reads: it has thousands of files, and each state would look at all of them."""
    made = Project(tmp_path, memo)
    monkeypatch.setattr("precast.build.inputs.closure._COMPILER", ())
    monkeypatch.setattr("precast.build.inputs.closure._STAND_INS", ("standin",))
    monkeypatch.setattr(sys, "path", [*sys.path, *made.path])
    return made


def names(table: Iterable[str]) -> list[object]:
    """The names of a table's routes; all but a few are slow together."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in table]


def states(route: Route, project: Project, server: Server) -> tuple[dict[str, str], dict[str, str], bool]:
    """The replies in both states of the thing, and whether the inputs differ between them."""
    project.write({"kernel.py": route.code})
    route.before(project)
    first, then = project.run_with_inputs(server)
    route.after(project)
    second, now = project.run_with_inputs(server)
    return first, second, then != now


@pytest.mark.parametrize("name", names(READ))
def test_what_is_not_declared_is_refused_or_absent(name: str, project: Project, server: Server) -> None:
    route = READ[name]
    first, second, differ = states(route, project, server)
    assert not differ
    if route.refused:
        assert route.refused in first.get("error", ""), first
        if route.refused.startswith(("files", "programs")):
            assert re.search(r"kernel\.py:\d+ ", first["error"]) and first["error"].startswith("UndeclaredInput")
    assert first == second, "the result depends on what is not there"


@pytest.mark.parametrize("name", names({n: r for n, r in READ.items() if r.declared}))
def test_what_is_declared_is_exact(name: str, project: Project, server: Server) -> None:
    route = READ[name]
    folders = {"search": project.search, "outside": project.outside}
    project.declared = tuple(text.format(**folders) for text in route.declared)
    first, second, differ = states(route, project, server)
    assert "error" not in first and "error" not in second, (first, second)
    assert first["value"] != second["value"]
    assert differ


@pytest.mark.parametrize("name", names(EXACT))
def test_what_import_statements_name_is_exact(name: str, project: Project, server: Server) -> None:
    first, second, differ = states(EXACT[name], project, server)
    assert "error" not in first and "error" not in second, (first, second)
    assert first["value"] != second["value"] and differ


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_THE_START)
def test_what_python_runs_at_its_start_is_exact(name: str, project: Project) -> None:
    route = AT_THE_START[name]
    project.write({"kernel.py": route.code})
    states = []
    for step in (route.before, route.after):
        step(project)
        with serving(sites=[project.site]) as started:
            states.append(project.run_with_inputs(started))
    (first, then), (second, now) = states
    assert first["value"] != second["value"] and then != now


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_COUNTED)
def test_what_does_not_count_is_the_same(name: str, project: Project, server: Server) -> None:
    route = NOT_COUNTED[name]
    project.declared = tuple(text.format(search=project.search) for text in route.declared)
    first, second, differ = states(route, project, server)
    assert "error" not in first and first == second and not differ


@pytest.mark.parametrize("name", names(IMPOSSIBLE))
def test_what_goes_round_the_closing_fails(name: str, project: Project, server: Server) -> None:
    project.write({"kernel.py": HEAD + IMPOSSIBLE[name] + "\n"})
    assert project.run(server)["value"] == "False"


@pytest.mark.parametrize("name", names(ALWAYS_THE_SAME))
def test_the_surroundings_are_the_same(name: str, project: Project, servers: tuple[Server, Server]) -> None:
    """In two processes of other environments, folders and machines."""
    project.write({"kernel.py": f"{HEAD}{ALWAYS_THE_SAME[name]}\n"})
    replies = []
    for number, server in enumerate(servers, 1):
        os.utime(project.search / "kernel.py", (number, number))
        replies.append(project.run(server))
    assert "error" not in replies[0] and replies[0] == replies[1]


@pytest.mark.parametrize("name", names(TWICE))
def test_a_second_compilation_differs(name: str, project: Project, server: Server) -> None:
    project.write({"kernel.py": f"{HEAD}{TWICE[name]}\n"})
    first, second = project.run(server), project.run(server, again=True)
    assert "error" not in first and "error" not in second, (first, second)
    if name in ("processors", "the affinity", "processors by C") and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("this machine has one processor")
    assert first["value"] != second["value"]


@pytest.mark.slow
@pytest.mark.parametrize("processor", sorted(os.sched_getaffinity(0))[:2])
def test_torch_computes_on_each_processor(processor: int, project: Project, server: Server) -> None:
    """Its first operation on the CPU reads ``/proc/cpuinfo``, and crashed on some processors where that was empty."""
    pytest.importorskip("torch")
    code = f"os.sched_setaffinity(0, {{{processor}}})\nimport torch\nVALUE = float(torch.ones(3).sum())"
    project.write({"kernel.py": f"{HEAD}{code}\n"})
    assert project.run(server)["value"] == "3.0"


@pytest.mark.parametrize("by", ["namespaces", "landlock", "none"])
def test_the_means(by: str, project: Project, server: Server) -> None:
    """What the author's Python code reads is refused by any of them; what C code reads, by the first two."""
    project.write({"kernel.py": f"{HEAD}VALUE = F.read_text()\n"})
    MADE(project)
    reply = project.run(server, by=by)
    if by != "none" and reply["by"] != by:
        pytest.skip(f"this kernel has no {by}")
    assert "files: [" in reply["error"]
    project.write({"kernel.py": f"{HEAD}{C}VALUE = C.open(name, 0) >= 0\n"})
    assert project.run(server, by=by)["value"] == str(by == "none")
    project.declared = (f"file:{project.search}/tiles.json",)
    assert project.run(server, by=by)["value"] == "True"


@pytest.mark.slow
@pytest.mark.parametrize("by", ["namespaces", "landlock", "none"])
@pytest.mark.parametrize("code", ["VALUE = (D / 'out').read_text()", "VALUE = (D / 'in').read_text()"])
def test_a_link_in_a_declared_folder_that_leads_out_of_it(code: str, by: str, project: Project, server: Server) -> None:
    """The folder's digest has the link and not what it leads to, so that this must be declared, too."""
    project.write({"kernel.py": f"{HEAD}{code}\n", "tiles/inside": "inside"})
    project.write({"t": "outside"}, project.outside)
    (project.search / "tiles" / "out").symlink_to(project.outside / "t")
    (project.search / "tiles" / "in").symlink_to("inside")
    (project.search / "tiles" / "round").symlink_to(".")
    project.declared = (f"folder:{project.search}/tiles",)
    reply = project.run(server, by=by)
    if by != "none" and reply["by"] != by:
        pytest.skip(f"this kernel has no {by}")
    if "'in'" in code:
        assert reply["value"] == "'inside'"
        return
    assert f"files: [{project.outside}/t]" in reply["error"]
    project.declared += (f"file:{project.outside}/t",)
    assert project.run(server, by=by)["value"] == "'outside'"


SWAPS: dict[str, tuple[Step, Step]] = {
    "file:search/kernel.py": (write("kernel.py", "VALUE = 2"), write("kernel.py", "VALUE = 1")),
    "file:search/tiles.json": (write("tiles.json", "2"), write("tiles.json", "1")),
    "folder:search/tiles": (write("tiles/b", ""), remove("tiles/b")),
    "file:search/link": (linked("tiles.json"), linked("third")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWAPS)
def test_what_was_another_thing_only_while_it_was_copied(name: str, project: Project, server: Server) -> None:
    """Before and after the compilation all is as it was: a checkout of another state, and back."""
    project.write({"kernel.py": "VALUE = 1", "tiles.json": "1", "tiles/a": "1", "third": ""})
    linked("third")(project)
    declared = [
        f"{'folder' if each == 'tiles' else 'file'}:{project.search}/{each}" for each in ("tiles.json", "tiles", "link")
    ]
    project.declared = tuple(declared)
    closures, closure = project.closures(), project.closure()
    closures.read(closure)
    there, back = SWAPS[name]
    assert closures.inputs(closure, project.run(server)["copies"]).names
    there(project)
    reply = project.run(server)
    back(project)
    if reply["by"] != "namespaces":
        pytest.skip("this kernel has no namespaces: the process reads the files themselves")
    with pytest.raises(ChangedInputError, match=f"{name} changed during the build: build again"):
        closures.inputs(closure, reply["copies"])

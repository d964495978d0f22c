"""Routes by which the module of a kernel reads something, and the check that its inputs notice a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.helpers.inputs.decided import Decided
from tests.helpers.inputs.observed_project import ObservedProject

Step = Callable[[ObservedProject], object]


@dataclass(frozen=True)
class Route:
    """The code of a kernel's module, what it finds, what then changes, and the inputs that must notice."""

    kernel: str
    change: Step
    noticed: set[str]
    prepare: Step = lambda project: None
    reported: tuple[str, ...] = ()
    """The kinds of what is reported as unsteady."""


def write(name: str, text: str, folder: str = "search") -> Step:
    return lambda project: project.write({name: text}, getattr(project, folder))


HERE = "from pathlib import Path\nhere = Path(__file__).parent\n"


def check_route(route: Route, project: ObservedProject, *, everything: bool = False) -> None:
    """The inputs change when, and only when, the thing changes; ``everything``: it reads all variables.

    A build and ``check`` then decide the same.
    """
    project.write({"kernel.py": route.kernel})
    route.prepare(project)
    inputs = project.inputs(route.reported)
    assert route.noticed <= set(inputs.names)
    assert project.changed(inputs) == ()
    decided = Decided(project, inputs)
    _unrelated(project)
    if not everything:
        project.variables["UNREAD"] = "1"
    assert project.changed(inputs) == ()
    assert (decided.by_build(), decided.by_check()) == (False, False)
    route.change(project)
    assert set(project.changed(inputs)) == route.noticed
    assert (decided.by_build(), decided.by_check()) == (True, True)
    assert project.inputs(route.reported).answers != inputs.answers


def _unrelated(project: ObservedProject) -> None:
    """What no kernel of these has asked for changes, too."""
    project.write({"unread.json": "1", "unread.py": "1", "tiles_65.py": ""})
    project.write({"unread.py": "x = 1"}, project.tools)
    project.write({".config/unread": ""}, project.home)
    project.install("unread", "2.0", {"unread_one.py": ""})

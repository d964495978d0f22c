"""What threads read, and files that are opened in vain before they are read: the inputs change with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject
from tests.helpers.inputs.route import HERE, Route, check_route, write

POOL = HERE + "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool: "
ROUTES = {
    "data that a pool of threads reads": Route(
        POOL + "list(pool.map(Path.read_text, [here / 'tiles.json']))\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that a thread reads": Route(
        HERE + "from threading import Thread\nt = Thread(target=Path.read_text, args=(here / 'tiles.json',))\n"
        "t.start()\nt.join()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that asyncio reads in a thread": Route(
        HERE + "import asyncio\nasyncio.run(asyncio.to_thread((here / 'tiles.json').read_text))\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that a thread without an object reads": Route(
        HERE + "import _thread, time\n_thread.start_new_thread((here / 'tiles.json').read_text, ())\ntime.sleep(0.2)\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "a variable that a pool of threads asks for": Route(
        POOL + "import os; list(pool.map(os.getenv, ['TILE']))\n",
        lambda project: project.variables.update(TILE="64"),
        {"variable:TILE"},
    ),
    "a folder that a pool of threads lists": Route(
        POOL + "list(pool.map(sorted, [(here / 'tiles').iterdir()]))\n",
        write("tiles/b.json", ""),
        {"folder:search/tiles"},
        write("tiles/a.json", ""),
    ),
    "data that exists, so that it is not made": Route(
        HERE + "try: open(here / 'tiles.json', 'x')\nexcept FileExistsError: (here / 'tiles.json').read_text()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that is touched, then read": Route(
        HERE + "(here / 'tiles.json').touch()\n(here / 'tiles.json').read_text()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that is opened to append, then read": Route(
        HERE + "open(here / 'tiles.json', 'a').close()\n(here / 'tiles.json').read_text()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
    "data that is locked, then read": Route(
        HERE + "import os\ntry: os.open(here / 'tiles.json', os.O_CREAT | os.O_EXCL | os.O_RDWR)\n"
        "except FileExistsError: (here / 'tiles.json').read_text()\n",
        write("tiles.json", "{}"),
        {"file:search/tiles.json"},
        write("tiles.json", "[]"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_the_inputs_change_with_it(name: str, tmp_path: Path) -> None:
    check_route(ROUTES[name], ObservedProject(tmp_path))

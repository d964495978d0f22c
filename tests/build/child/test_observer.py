"""What the observer sees in a real process, and whom it says to have asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.inputs.observed_project import ObservedProject

UNSTEADY = {
    "import time\ntime.time()\n": "clock",
    "from time import time_ns\ntime_ns()\n": "clock",
    "import time\ntime.localtime()\n": "clock",
    "import time\ntime.strftime('%Y')\n": "clock",
    "import datetime\ndatetime.datetime.now()\n": "clock",
    "from datetime import date\ndate.today()\n": "clock",
    "import os\nos.urandom(1)\n": "randomness",
    "import random\nrandom.random()\n": "randomness",
    "import random\nrandom.Random()\n": "randomness",
    "import secrets\nsecrets.token_hex()\n": "randomness",
    "import uuid\nuuid.uuid1()\n": "randomness",
    "import uuid\nuuid.uuid4()\n": "randomness",
    "import socket\nsocket.getaddrinfo('127.0.0.1', 1)\n": "network",
    "f = open('/proc/self/status')\n": "system",
    "import os\nos.listdir('/sys/class')\n": "system",
    "import os\nos.listdir(os.environ['TMPDIR'])\n": "temporary file",
    "import os\nos.path.getmtime(__file__)\n": "clock",
    "import os\nos.getpid()\n": "host",
    "import os\nos.cpu_count()\n": "host",
    "import multiprocessing as m\nm.cpu_count()\n": "host",
    "import os\nos.sched_getaffinity(0)\n": "host",
    "import os\nos.getcwd()\n": "host",
    "from pathlib import Path\nPath.cwd()\n": "host",
    "import os\nos.umask(0o22)\n": "host",
    "import resource\nresource.getrlimit(resource.RLIMIT_NOFILE)\n": "host",
    "import platform\nplatform.node()\n": "host",
    "import socket\nsocket.gethostname()\n": "host",
}
JOINED = "\n[process.join() for process in m.active_children()]\n"
PROCESSES = (
    "import os\nos.fork() or os._exit(0)\n",
    "import multiprocessing as m\nm.get_context('fork').Process(target=print).start()" + JOINED,
    "import multiprocessing as m\nm.get_context('spawn').Process(target=print).start()" + JOINED,
    "import concurrent.futures as c\nc.ProcessPoolExecutor(1).submit(print).result()\n",
    "import subprocess\nsubprocess.run(['true'])\n",
    "import os\nos.system('true')\n",
)
STEADY = {
    "durations": "import time\ntime.perf_counter()\ntime.monotonic()\n",
    "a given time": "import time\ntime.localtime(0)\ntime.strftime('%Y', time.gmtime(0))\n",
    "a seed": "import random\nrandom.seed(1)\nrandom.random()\nrandom.Random(2).random()\n",
    "a date": "import datetime\ndatetime.datetime(2020, 1, 1).isoformat()\ndatetime.datetime.fromtimestamp(0)\n",
    "what it wrote": "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n"
    "    open(d + '/a', 'w').write('1')\n    import os\n    os.rename(d + '/a', d + '/b')\n    open(d + '/b').read()\n",
    "nothing to read": "open('/dev/null').read()\n",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool() as p: p.submit(id)\n",
    "a relative path": "import os\nos.path.abspath('x')\n",
    "a standard module": "import json.tool, http.client, logging.handlers\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", UNSTEADY)
def test_what_is_not_the_same_twice_is_named_with_its_place(code: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": f"def build():\n    {code.strip().replace(chr(10), chr(10) + '    ')}\nbuild()\n"})
    _, unsteady = project.build()
    assert {one.kind for one in unsteady} == {UNSTEADY[code]}
    assert {(one.file, one.line) for one in unsteady} == {(str(project.search / "kernel.py"), code.count("\n") + 1)}


@pytest.mark.slow
@pytest.mark.parametrize("code", PROCESSES)
@pytest.mark.parametrize("native", [True, False])
def test_a_process_is_named_where_it_cannot_be_observed(code: str, native: bool, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path, native=native)
    project.write({"kernel.py": f"def build():\n    {code.strip().replace(chr(10), chr(10) + '    ')}\nbuild()\n"})
    _, unsteady = project.build()
    expected = set() if native else {("process", str(project.search / "kernel.py"), 3)}
    assert {(one.kind, one.file, one.line) for one in unsteady} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", STEADY)
def test_what_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": STEADY[name]})
    assert project.inputs().names
    assert not [one for one in project.inputs().names if one.startswith(("file:", "variable:"))]


def test_dates_behave_as_before(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    code = """
from datetime import date, datetime, timezone
import copy, time
class Own(datetime): pass
given = datetime(2020, 1, 1, tzinfo=timezone.utc)
VALUE = [
    isinstance(given, datetime), isinstance(given, date), isinstance(date(2020, 1, 1), datetime),
    isinstance(given, Own), type(Own(2020, 1, 1)) is Own, isinstance(Own(2020, 1, 1), datetime),
    type(Own.now()) is Own, issubclass(Own, date), copy.deepcopy(given) == given,
    datetime.strptime("2020", "%Y").year, abs(datetime.now().timestamp() - time.time()) < 60,
]
"""
    project.write({"kernel.py": code})
    project.build()
    assert project.value == [True, True, False, False, True, True, True, True, True, 2020, True]


def test_a_distribution_that_a_distribution_asks_is_not_the_authors_doing(tmp_path: Path) -> None:
    """The innermost frame that is somebody's has asked, also through the standard library and generated code."""
    project = ObservedProject(tmp_path)
    asks = "import os, time, collections\ndef ask():\n    exec('time.time()')\n    os.environ.get('HOME')\n"
    project.install("acme", "1.0", {"acme.py": f"{asks}ask()\n"})
    project.write({"kernel.py": "import acme\nacme.ask()\n"})
    assert "variable:HOME" not in project.inputs().names
    project.write({"kernel.py": "import acme\nimport os\nlist(map(os.environ.get, ['HOME']))\n"})
    assert "variable:HOME" in project.inputs().names


def test_a_variable_that_it_set_itself_is_no_input(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import os\nos.environ['TILE'] = '1'\nos.environ['TILE']\nos.getenv('OTHER')\n"})
    names = project.inputs().names
    assert "variable:OTHER" in names and "variable:TILE" not in names


@pytest.mark.slow
def test_what_asks_a_hundred_thousand_things_is_not_understood(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "import os\nfor n in range(100_001): os.environ.get(str(n))\n"})
    assert not project.observe().complete


NO_TEXT = [
    "try: open(b'/nowhere/\\xff')\nexcept OSError: pass\n",
    "import os\nos.environb.get(b'\\xff')\n",
    "import importlib\ntry: importlib.import_module('\\udcff')\nexcept ImportError: pass\n",
    "import sys\nsys.path.append('/nowhere/\\udcff')\n",
]


@pytest.mark.parametrize("code", NO_TEXT)
def test_names_that_are_no_text(code: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": code})
    _, unsteady = project.build()
    assert [one.kind for one in unsteady] == ["unseen"]


def test_the_search_for_adapters_is_precasts_own(tmp_path: Path) -> None:
    """The process that compiles goes through the entry points of all that is installed, for every kernel."""
    project = ObservedProject(tmp_path)
    project.write({"kernel.py": "from precast.kernels.authoring import adapter\nadapter._installed()\n"})
    assert not [name for name in project.inputs().names if name.startswith("folder:")]

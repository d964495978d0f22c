"""What decides a kernel beside its key: a kernel that was built under other facts is never served."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import run_forked
from tests.helpers.builds import HEAD, precast

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LIBRARY = {
    "facty/kernels.py": f"""
{HEAD}
import functools
import json
import os
import pathlib
import subprocess

import numpy

import facthelper.scaling
from facthelper import pure
from facty import settings
from facty.other import ROUNDS

AT_IMPORT = float(os.environ.get("FACTY_AT_IMPORT", "1"))
WIDTH = 4
MADE = {{}}
_warmed = False


def set_rounds(rounds):
    global ROUNDS
    ROUNDS = rounds


def table():
    return json.loads((pathlib.Path(__file__).parent / "table.json").read_text())


def of_programs(scale=1.0):
    folder = pathlib.Path(__file__).parent
    shown = subprocess.run(["cat", str(folder / "shown.txt")], capture_output=True, text=True, check=True).stdout
    return scale * (float(numpy.loadtxt(folder / "numbers.txt")) + float(shown))


@functools.cache
def compiled(value, scale=None):
    global _warmed
    import facty.lazy
    from facty.inner import shift

    _warmed = MADE[value] = True
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=4),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    value = float(value) * (scale(1) if scale else 1) * AT_IMPORT * settings.factor() * facthelper.scaling.SCALE
    value = value + shift(ROUNDS) + WIDTH + table()["bias"] + pure.offset()
    options = settings.OPTIONS
    options.hits += 1
    assert settings.Inner().made
    value = value + of_programs() + sum(settings.Defaults.steps) + settings.weighed(1.0) + settings.Defaults().cut()
    value = value + options.tile + options.inner.scale + settings.Defaults.step + settings.STEP.get()
    return cute.compile(add_host, x, value, stream, options="--enable-tvm-ffi")
""",
    "facty/settings.py": """
import contextvars
import dataclasses
import functools
import os

LOG = os.environ.get("FACTY_LOG", "no")
STEP = contextvars.ContextVar("STEP", default=1.0)


class Inner:
    __slots__ = ("scale", "unset")
    made = 0

    def __init__(self):
        self.scale = 1.0
        Inner.made += 1


def by(factor):
    def decorate(function):
        @functools.wraps(function)
        def call(value):
            return factor * function(value)

        return call

    return decorate


@by(2.0)
def weighed(value):
    return value


class Defaults:
    step = 1.0
    steps = [1.0]

    def cut(self):
        return 1.0

    unused = 1.0


@dataclasses.dataclass
class Options:
    tile: float = 1.0
    hits: int = 0
    unused: int = 0
    inner: Inner = dataclasses.field(default_factory=Inner)


OPTIONS = Options()


@functools.cache
def factor():
    return float(os.environ.get("FACTY_FACTOR", "1"))
""",
    "facty/other.py": "ROUNDS = 1\n",
    "facty/inner.py": "def shift(rounds):\n    return 2 * rounds\n",
    "facty/elsewhere.py": "def unused():\n    return 1\n",
    "facty/table.json": '{"bias": 1}',
    "facty/numbers.txt": "1\n",
    "facty/shown.txt": "1\n",
    "facty/lazy.py": "import os\n\nLEVEL = os.environ.get('FACTY_LEVEL', 'info')\n",
    "facty_seams.py": """
from precast.attach import Functions, Library

LIBRARY = Library(
    name="facty",
    distribution="facty",
    package="facty",
    seams=(Functions("facty.kernels", ("compiled",)),),
    by_module=True,
)
""",
}
HELPER = {
    "facthelper/scaling.py": "import cutlass\n\nSCALE = 2.0\n",
    "facthelper/pure.py": "def offset():\n    return 1\n",
    "facthelper/elsewhere.py": "TEXT = 1\n",
}
USER = "def twice(value):\n    return 2 * value\n"
UNRELATED = {"factother/__init__.py": "import cutlass\n"}
PROGRAM = """
import factother
import userscale
from facty import kernels

kernels.compiled(3)
kernels.compiled(3, userscale.twice)
"""
BUILT = {"FACTY_FACTOR": "4"}
SERVE = """
import json
import userscale
from precast import loader
attached = loader.attach(["facty"], mode="frozen", target="sm_90a")
from facty import kernels
CHANGE
try:
    print(json.dumps(["served" if kernels.compiled(3, SCALE) else "", ""]))
except loader.attach.KernelMissing as error:
    print(json.dumps(["", str(error)]))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries in ``site`` and the cache of what the program compiles, built with FACTY_FACTOR=4."""
    folder = tmp_path_factory.mktemp("facts")
    site = write_library(folder / "site", LIBRARY, package="facty", distribution="facty")
    write_library(site, HELPER, package="facthelper", distribution="fact-helper")
    write_library(site, UNRELATED, package="factother", distribution="fact-other")
    (site / "facty-1.0.dist-info" / "entry_points.txt").write_text("[precast.libraries]\nfacty = facty_seams\n")
    (site / "userscale.py").write_text(USER)
    (folder / "program.py").write_text(PROGRAM)
    manifest = folder / "facty.yaml"
    target = ("-t", "sm_90a", "--library", "facty", "-o", manifest)
    run(folder, "record", *target, "--", "python", folder / "program.py")
    text = manifest.read_text()
    entry = "  - compile:"
    assert text.count(entry) == 2
    assert "inputs:" not in text
    text = text.replace(entry, "  - env: {FACTY_FACTOR: '4'}\n    compile:")
    manifest.write_text(text + "inputs: {programs: [cat]}\n")
    run(folder, "build", manifest, "-o", folder / "cache")
    return folder


def run(folder: Path, *arguments: object) -> None:
    done = precast(folder / "store", *arguments, PYTHONPATH=str(folder / "site"))
    assert done.returncode == 0, done.stdout + done.stderr


def served(
    shop: Path, variables: Mapping[str, str], *, site: Path | None = None, scale: str = "None", change: str = ""
) -> list[str]:
    """Whether the kernel was served, and the error."""
    code = SERVE.replace("SCALE", scale).replace("CHANGE", change)
    done = run_forked(code, path=[site or shop / "site"], cache=shop / "cache", **variables)
    assert done.returncode == 0, done.stderr
    answer: list[str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def facts_of(shop: Path) -> Mapping[str, Any]:
    cache = Cache(shop / "cache")
    (op,) = cache.index.ops
    (one,) = (artifact for artifact in cache.op(op).artifacts if artifact.config["scale"] is None)
    found: Mapping[str, Any] = one.provenance["facts"]
    return found


def test_the_facts_are_what_the_kernel_is_made_of_and_nothing_else(shop: Path) -> None:
    facts = facts_of(shop)
    assert facts["variables"] == {"FACTY_AT_IMPORT": None, "FACTY_FACTOR": "4"}
    assert facts["packages"] == {"facthelper": {"distribution": "fact-helper", "version": "1.0"}}
    used = {"facty.kernels", "facty.settings", "facty.lazy", "facty.inner", "facty.other"}
    assert set(facts["modules"]) == {*used, "facthelper.scaling", "facthelper.pure"}
    assert list(facts["files"]) == ["facty/numbers.txt", "facty/shown.txt", "facty/table.json"]
    names = {module: some["names"].split() for module, some in facts["globals"].items()}
    assert {"WIDTH", "ROUNDS", "table()"} <= set(names["facty.kernels"]) and "_warmed" not in names["facty.kernels"]
    assert "AT_IMPORT" not in names["facty.kernels"]  # the environment may decide it, and that is a fact of its own


def test_it_is_served_where_the_facts_hold(shop: Path) -> None:
    assert served(shop, BUILT) == ["served", ""]
    assert served(shop, {**BUILT, "FACTY_LOG": "yes", "FACTY_LEVEL": "debug"}) == ["served", ""]


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({}, "built with FACTY_FACTOR=4, which is not set here: build it with this environment"),
        ({"FACTY_FACTOR": "2"}, "built with FACTY_FACTOR=4, which is '2' here"),
        ({"FACTY_FACTOR": "4", "FACTY_AT_IMPORT": "1"}, "built with FACTY_AT_IMPORT not set, which is '1' here"),
    ],
)
def test_another_variable_is_refused(shop: Path, variables: dict[str, str], reason: str) -> None:
    answer, error = served(shop, variables)
    assert not answer and reason in error


def test_a_changed_package_is_refused(shop: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    assert served(shop, BUILT, site=site) == ["served", ""]
    changed = site / "facthelper" / "scaling.py"
    was = changed.stat()
    changed.write_text(changed.read_text().replace("2.0", "3.0"))
    os.utime(changed, ns=(was.st_atime_ns, was.st_mtime_ns - 10**9))  # the same size, and older than it was
    assert "the source of facthelper.scaling differs from the one" in served(shop, BUILT, site=site)[1]
    shutil.copytree(shop / "site", site, dirs_exist_ok=True)
    info = site / "fact_helper-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fact-helper\nVersion: 2.0\n")
    info.rename(site / "fact_helper-2.0.dist-info")
    assert "built with fact-helper 1.0, and 2.0 is installed" in served(shop, BUILT, site=site)[1]
    shutil.rmtree(site / "fact_helper-2.0.dist-info")
    assert "fact-helper is not installed: pip install fact-helper" in served(shop, BUILT, site=site)[1]


def test_a_users_function_is_refused_after_an_edit(shop: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    assert served(shop, BUILT, site=site, scale="userscale.twice") == ["served", ""]
    (site / "userscale.py").write_text(USER.replace("2", "3"))
    answer, error = served(shop, BUILT, site=site, scale="userscale.twice")
    assert not answer and "the source of userscale differs from the one that the kernel was built with" in error
    assert served(shop, BUILT, site=site) == ["served", ""]


@pytest.mark.parametrize("name", ["facty/inner.py", "facty/lazy.py", "facty/kernels.py", "facthelper/pure.py"])
def test_a_changed_module_is_refused(shop: Path, tmp_path: Path, name: str) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    was = (site / name).stat()
    text = (site / name).read_text()
    (site / name).write_text(text.replace("return", "return ", 1) if "return" in text else text.upper())
    os.utime(site / name, ns=(was.st_atime_ns, was.st_mtime_ns - 10**9))
    answer, error = served(shop, BUILT, site=site)
    assert not answer and f"the source of {name[:-3].replace('/', '.')} differs" in error


@pytest.mark.parametrize("name", ["facty/elsewhere.py", "facthelper/elsewhere.py"])
def test_a_change_of_what_no_kernel_uses_refuses_none(shop: Path, tmp_path: Path, name: str) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    (site / name).write_text("TEXT = 2\n")
    assert served(shop, BUILT, site=site) == ["served", ""]


@pytest.mark.parametrize("name", ["facty/numbers.txt", "facty/shown.txt", "facty/table.json"])
def test_a_changed_data_file_is_refused(shop: Path, tmp_path: Path, name: str) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    (site / name).write_text((site / name).read_text().replace("1", "2"))
    answer, error = served(shop, BUILT, site=site)
    assert not answer and f"the file {name} differs from the one that the kernel was built with" in error


@pytest.mark.parametrize(
    ("change", "module"),
    [
        ("kernels.WIDTH = 8", "facty.kernels"),
        ("kernels.WIDTH = 4.0", "facty.kernels"),
        ("kernels.set_rounds(2)", "facty.kernels"),
        ("kernels.table = lambda: {'bias': 2}", "facty.kernels"),
        ("del kernels.WIDTH", "facty.kernels"),
        ("import facthelper.scaling; facthelper.scaling.SCALE = 3.0", "facthelper.scaling"),
        ("import facthelper.pure; facthelper.pure.offset = userscale.twice", "facthelper.pure"),
        ("import facty.inner; facty.inner.shift = userscale.twice", "facty.inner"),
        ("kernels.settings.OPTIONS.tile = 2.0", "facty.settings"),
        ("kernels.settings.OPTIONS = kernels.settings.Options(2.0)", "facty.settings"),
        ("kernels.settings.OPTIONS = None", "facty.settings"),
        ("kernels.settings.OPTIONS.inner.scale = 2.0", "facty.settings"),
        ("kernels.settings.Defaults.step = 2.0", "facty.settings"),
        ("kernels.settings.STEP.set(2.0)", "facty.settings"),
        ("kernels.settings.Defaults.steps.append(2.0)", "facty.settings"),
        ("kernels.settings.Defaults.cut = lambda self: 2.0", "facty.settings"),
        ("kernels.settings.weighed.__closure__[0].cell_contents = 3.0", "facty.settings"),
        ("kernels.of_programs.__defaults__ = (2.0,)", "facty.kernels"),
        ("kernels.table.__code__ = (lambda: {'bias': 2}).__code__", "facty.kernels"),
    ],
)
def test_a_global_that_a_program_changed_is_refused(shop: Path, change: str, module: str) -> None:
    answer, error = served(shop, BUILT, change=change)
    assert not answer and f"a global of {module} that the kernel depends on was changed in this process" in error


def test_a_global_that_the_library_itself_sets_as_it_runs_refuses_none(shop: Path) -> None:
    assert served(shop, BUILT, change="kernels._warmed = True") == ["served", ""]
    assert served(shop, BUILT, change="kernels.MADE[7] = True") == ["served", ""]
    assert served(shop, BUILT, change="kernels.settings.OPTIONS.hits = 7") == ["served", ""]
    assert served(shop, BUILT, change="kernels.settings.Inner()") == ["served", ""], "it counts what was made"


def test_a_fact_is_judged_at_each_use(shop: Path) -> None:
    """After a first use: one call is of the function's own cache, another is looked up."""
    first = "assert kernels.compiled(3, None)\nkernels.WIDTH = 8\nassert kernels.compiled(3, None)\n"
    answer, error = served(shop, BUILT, change=first, scale="scale=None")
    assert not answer and "a global of facty.kernels that the kernel depends on was changed" in error
    assert "in this process (WIDTH): do not change it" in error


def test_an_attribute_that_the_kernel_does_not_read_refuses_none(shop: Path) -> None:
    change = "kernels.settings.OPTIONS.unused = 7; kernels.settings.Defaults.unused = 7"
    assert served(shop, BUILT, change=change) == ["served", ""]

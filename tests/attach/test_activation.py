"""``PRECAST_ATTACH``: libraries are attached in every process that inherits it, and nothing happens without it.

The processes are those of a virtual environment with ``precast_attach.pth``, as an installed wheel has it, and nothing
else: small packages stand for the libraries.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from precast.attach import SHIPPED, library_named
from precast.attach.activation import PACKAGES, activate, plugin
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import IMPORTED

ACTIVATION = Path(str(metadata.distribution("precast-attach").locate_file("precast_attach.pth")))
COMPILE = """
class cute:
    compile = staticmethod(lambda *arguments: ("compiled", *arguments))

def compiled(n):
    return cute.compile(n)
"""
DECLARED = """
from precast.attach import Functions, Library
seams = (Functions("minilib.kernels", ("compiled",)),)
LIBRARY = Library(name="mine", distribution="minilib", package="minilib", seams=seams)
"""
ANSWER = """
from quack.kernels import compiled

def answer(_=None):
    try: return str(compiled(1))
    except Exception as error: return f"{type(error).__name__} {error.args[0].splitlines()[0]}"
"""
EVERYWHERE = """
import multiprocessing, os, subprocess, sys
from answers import answer

if __name__ == "__main__":
    print(answer())
    for method in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(answer, [0])[0])
    child = "from answers import answer; print(answer())"
    subprocess.run([sys.executable, "-c", child], check=True)
"""
MISSING = "KernelMissing quack.kernels:compiled: no cache holds attach.quack.kernels_compiled"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the loader and attach alone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "_precast_loader.pth").write_text(f"{IMPORTED}\n")
    (packages / "precast_attach.pth").write_bytes(ACTIVATION.read_bytes())
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages with the names of libraries, and a distribution that declares one of its own."""
    site = tmp_path_factory.mktemp("site")
    jit = "import functools\ndef jit_cache(function): return functools.cache(function)\n"
    kernels = "from quack.cache.jit import jit_cache\n\n@jit_cache\ndef compiled(n): return ('compiled', n)\n"
    files = {"quack/cache/__init__.py": "", "quack/cache/jit.py": jit, "quack/kernels.py": kernels}
    files["quack/dtypes.py"] = "import cutlass"
    write_library(site, files, package="quack", distribution="quack-kernels")
    write_library(site, {"flashinfer/__init__.py": COMPILE}, package="flashinfer", distribution="flashinfer-python")
    front_end = f"{COMPILE}\ncompiled.compile_cache = {{}}\n"
    write_library(
        site, {"flash_attn/cute/interface.py": front_end}, package="flash_attn/cute", distribution="flash-attn-4"
    )
    write_library(site, {"minilib/kernels.py": COMPILE, "minilib_seams.py": DECLARED})
    info = next(site.glob("minilib-*.dist-info"))
    (info / "entry_points.txt").write_text("[precast.libraries]\nmine = minilib_seams\n")
    (site / "answers.py").write_text(ANSWER)
    (site / "everywhere.py").write_text(EVERYWHERE)
    return site


@pytest.fixture
def run(python: Path, site: Path) -> Run:
    """Run the environment's Python with these packages and variables."""

    def run_python(
        *words: str | Path, packages: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PRECAST_", "QUACK_"))}
        environment = {**kept, "PYTHONPATH": str(packages or site), **variables}
        command = [str(word) for word in (python, *words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run_python


def passes(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a process that succeeded and printed no error."""
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    return done.stdout


def of_precast(output: str) -> list[str]:
    return [name for name in output.split() if name.startswith("precast")]


MODULES = "import sys; print(*sorted(sys.modules), [type(finder).__module__ for finder in sys.meta_path])"


@pytest.mark.parametrize("variables", [{}, {"PRECAST_ATTACH": ""}, {"PRECAST_ATTACH_MODE": "frozen"}])
def test_without_the_variable_nothing_of_precast_is_imported(variables: dict[str, str], run: Run) -> None:
    output = passes(run("-c", f"import quack.kernels\n{MODULES}", **variables))
    assert "quack.kernels" in output and "precast" not in output


def test_what_is_imported_before_a_library_is(run: Run) -> None:
    output = passes(run("-c", MODULES, PRECAST_ATTACH="quack, flashinfer"))
    assert of_precast(output) == [
        "precast", "precast.attach", "precast.attach.activation", "precast.loader", "precast.loader.errors",
        "precast.loader.locks",
    ]  # fmt: skip
    assert "typing" not in output.split(), "it takes longer to import than all the rest"


def test_every_process_is_attached(run: Run, site: Path) -> None:
    variables = {"PRECAST_ATTACH": "quack", "PRECAST_ATTACH_MODE": "frozen"}
    lines = passes(run(site / "everywhere.py", **variables)).splitlines()
    assert len(lines) == 5 and all(line.startswith(MISSING) for line in lines), lines
    lines = passes(run(site / "everywhere.py")).splitlines()
    assert lines == ["('compiled', 1)"] * 5


def test_only_an_import_attaches_and_then_only_that_library(run: Run) -> None:
    code = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader
for name in ("quack", "flashinfer"):
    spec = importlib.util.find_spec(name)
    assert spec.loader.get_source(name) is not None and spec.origin.endswith("__init__.py")
assert "precast.attach.process" not in sys.modules
import quack
from precast.attach import attached
assert list(attached().libraries) == ["quack"] and attached().mode == "serve"
assert type(quack.__loader__) is type(quack.__spec__.loader) is SourceFileLoader
assert importlib.reload(quack) is quack
import flashinfer
assert list(attached().libraries) == ["quack", "flashinfer"]
"""
    passes(run("-c", code, PRECAST_ATTACH="quack,flashinfer"))


@pytest.mark.parametrize(
    ("name", "module"),
    [("flashinfer", "flashinfer"), ("flash_attention", "flash_attn.cute.interface"), ("mine", "minilib.kernels")],
)
def test_the_first_module_of_a_library_is_hooked(name: str, module: str, run: Run) -> None:
    """Also where it is the package itself, where the package is a bare folder, and where a distribution declares it."""
    code = f"""
from {module} import compiled
from precast.attach import attached
assert list(attached().libraries) == ["{name}"]
mapping = getattr(compiled, "compile_cache", None)
try: answer = compiled(1) if mapping is None else mapping[1]
except Exception as error: assert type(error).__name__ == "KernelMissing", error
else: raise AssertionError(answer)
"""
    passes(run("-c", code, PRECAST_ATTACH=name, PRECAST_ATTACH_MODE="frozen"))


def test_attached_twice_is_attached_once(run: Run) -> None:
    code = """
import sys
from precast.loader import attach
from precast.attach.activation import activate, plugin
first = attach(["quack"], mode="serve")
finders = list(sys.meta_path)
activate()
plugin()
import quack.kernels
wrapped = quack.kernels.compiled
assert attach(["quack"]) is first is attach([]) and first.mode == "serve" and sys.meta_path == finders
plugin()
assert quack.kernels.compiled is wrapped and wrapped.__wrapped__.__closure__ is None
"""
    passes(run("-c", code, PRECAST_ATTACH="quack", PRECAST_ATTACH_MODE="frozen"))


def test_the_mode_of_the_variable_is_that_of_a_first_call(run: Run) -> None:
    code = "from precast.loader import attach\nprint(attach([]).mode, attach([], mode='serve').mode, attach([]).mode)"
    assert passes(run("-c", code, PRECAST_ATTACH_MODE="frozen")) == "frozen serve serve\n"


def test_a_library_that_is_not_installed_is_skipped(run: Run, tmp_path: Path) -> None:
    code = """
try: import quack
except ModuleNotFoundError as error: assert str(error) == "No module named 'quack'"
else: raise AssertionError
import sys
assert "precast.attach.process" not in sys.modules
"""
    passes(run("-c", code, packages=tmp_path, PRECAST_ATTACH="quack,flashinfer"))


REFUSED = """
import importlib.util, json
for _ in range(2):
    try: import {}
    except ValueError as error: assert type(error).__name__ == "ConfigError" and {!r} in str(error), error
    else: raise AssertionError
assert importlib.util.find_spec({!r}) is not None
"""


@pytest.mark.parametrize("named", ["quak", "quack,quak"])
def test_a_wrong_name_is_printed_and_no_known_library_can_be_imported(named: str, run: Run) -> None:
    text = f"PRECAST_ATTACH={named}: no library 'quak' is declared: use one of"
    for package in ("quack", "flashinfer"):
        done = run("-c", REFUSED.format(package, text, package), PRECAST_ATTACH=named)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(f"precast: {text}") and done.stderr.count("\n") == 1
    assert run("-c", "import minilib.kernels", PRECAST_ATTACH=named).returncode == 0


def test_a_wrong_mode_is_an_error_of_each_import(run: Run) -> None:
    text = "PRECAST_ATTACH_MODE=fast is not a mode: use record, serve, frozen"
    code = REFUSED.format("quack", text, "quack")
    passes(run("-c", code, PRECAST_ATTACH="quack", PRECAST_ATTACH_MODE="fast"))


def test_placeholders_are_there_where_the_dsl_is_not_installed(run: Run, site: Path, tmp_path: Path) -> None:
    code = "import quack.dtypes; print(quack.dtypes.cutlass.__version__)"
    assert passes(run("-c", code, PRECAST_ATTACH="quack")) == "4.8.1\n"
    assert run("-c", "import quack, cutlass", PRECAST_ATTACH="quack").returncode == 1
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "__init__.py").write_text("__version__ = 'own'\n")
    both = f"{site}{os.pathsep}{tmp_path}"
    assert passes(run("-c", code, PRECAST_ATTACH="quack", PYTHONPATH=both)) == "own\n"
    assert passes(run("-c", f"import cutlass; {code}", PRECAST_ATTACH="quack", PYTHONPATH=both)) == "own\n"


PLUGIN = """
import sys
{}
from precast.attach.activation import plugin
try: plugin()
except ValueError as error: print(error)
process = sys.modules.get("precast.attach.process")
print("-" if process is None else list(process.attached().libraries) if process.attached() else [])
"""


@pytest.mark.parametrize(
    ("before", "named", "printed"),
    [
        ("import quack", "", "-"),
        ("", "quack", "-"),
        ("import quack", "quack,flashinfer", "quack is already imported, without the names of the DSL"),
        ("import cutlass, quack", "quack,flashinfer", "['quack']"),
        (
            "import cutlass, quack.kernels",
            "quack",
            "quack.cache.jit is already imported",
        ),
        ("import flash_attn", "flash_attention", "['flash_attention']"),
        ("", "quak", "PRECAST_ATTACH=quak: no library 'quak' is declared"),
    ],
)
def test_the_plug_in_attaches_what_the_engine_has_imported(
    before: str, named: str, printed: str, run: Run, site: Path, tmp_path: Path
) -> None:
    """In a process that reads no ``.pth`` file."""
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "__init__.py").write_text("")
    path = os.pathsep.join(map(str, (site, tmp_path, IMPORTED) if "cutlass" in before else (site, IMPORTED)))
    done = run("-S", "-c", PLUGIN.format(before), PYTHONPATH=path, PRECAST_ATTACH=named)
    assert done.returncode == 0 and done.stdout.startswith(printed), done.stdout + done.stderr


def test_the_packages_are_those_that_the_libraries_declare() -> None:
    assert {name: library_named(name).package for name in SHIPPED} == PACKAGES


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PRECAST_ATTACH", raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield


@pytest.mark.usefixtures("unset")
def test_a_call_without_the_variable_adds_no_finder() -> None:
    finders = list(sys.meta_path)
    activate()
    plugin()
    assert sys.meta_path == finders

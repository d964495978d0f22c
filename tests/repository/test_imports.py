"""What importing a package imports besides."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "tvm_ffi", "cutlass", "cuda", "yaml", "typer", "elftools", "numpy", "jax")


def imported(statement: str) -> set[str]:
    """The top-level modules that a fresh Python has after a statement."""
    script = f"import json, sys\n{statement}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules(folder: str) -> list[str]:
    """The import names of all modules in a top folder."""
    paths = (p.relative_to(ROOT).with_suffix("") for p in sorted((ROOT / folder).rglob("*.py")))
    return [".".join(("precast", *p.parts)).removesuffix(".__init__") for p in paths]


def test_importing_the_loader_imports_nothing_heavy() -> None:
    assert imported("import precast.loader") & set(HEAVY) == set()


NATIVE = ("launch.native_kernel", "launch.native_program", "native.hatch_build")
"""Modules that need native code, which is imported at the first load, and the build hook."""


def test_no_module_of_the_loader_imports_anything_heavy() -> None:
    """Torch and tvm_ffi come with the first load and the first launch, the rest never."""
    names = sorted(set(modules("loader")) - {f"precast.loader.{name}" for name in NATIVE})
    assert "precast.loader.contract.format.config" in names
    assert imported(f"import {', '.join(names)}") & set(HEAVY) == set()


def test_the_emulator_imports_nothing_but_itself() -> None:
    """And the standard library: it is a distribution of its own, without dependencies."""
    names = ", ".join(sorted(modules("emulator")))
    script = f"import sys; before = set(sys.modules); import {names}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in found if not f"{name}.".startswith("precast.emulator.")} - {"precast"} == set()


@pytest.mark.parametrize(
    "package", ["attach", "build", "cli", "fetch", "kernels", "loader", "measure", "native", "publish"]
)
def test_importing_a_package_does_not_start_the_dsl(package: str) -> None:
    assert imported(f"import precast.{package}") & {"cutlass", "torch"} == set()


def test_the_help_imports_no_command() -> None:
    script = (
        "import json, sys\n"
        "from precast.cli import main\n"
        "try: main.run(['--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('precast.cli')]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "doctor" in done.stdout
    assert {m.removeprefix("precast.cli") for m in json.loads(done.stderr)} == {"", ".main", ".shared", ".shared.help"}


@pytest.mark.slow
def test_collecting_the_doctests_does_not_start_the_dsl() -> None:
    script = (
        "import pytest, sys\n"
        "status = pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', 'src/precast'])\n"
        "sys.exit(3 if 'cutlass' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "precast.loader.contract.format.config" in done.stdout


def test_importing_the_loader_does_not_import_attach() -> None:
    script = (
        "import sys, precast.loader; sys.exit(bool({'precast.loader.attach', 'precast.attach'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_imports_what_there_is(script: str) -> None:
    """Nothing runs them here, and no checker of types reads them."""
    for node in ast.walk(ast.parse((ROOT / script).read_text())):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] not in ("tests", "precast"):
            continue
        assert node.module
        module = importlib.import_module(node.module)
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            there = hasattr(module, alias.name) or importlib.util.find_spec(submodule) is not None
            assert there, f"{script} imports {alias.name} from {node.module}, which has it no more"

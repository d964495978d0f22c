"""The examples of docs/reference/attach.md run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from precast.attach.library import library_named
from precast.build.plan.manifest import parse_manifest
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import passes, run
from tests.helpers.pages import blocks, quoted

PAGE = "docs/reference/attach.md"
ENGINE = {"my_engine/__init__.py": "", "my_engine/kernels.py": "def get_compiled(n): return n\n"}


def test_the_program() -> None:
    (program, _) = blocks(PAGE, "python")
    passes(program.replace("import quack\n", "") + "assert 'quack' in loader.attach([]).libraries")


def test_the_engine(tmp_path: Path) -> None:
    (_, engine) = blocks(PAGE, "python")
    site = write_library(tmp_path / "site", ENGINE, package="my_engine", distribution="my-engine")
    passes(
        f"{engine}\n"
        "from my_engine.kernels import get_compiled\n"
        "from precast.loader.attach import KernelMissing\n"
        "try: get_compiled(8)\n"
        "except KernelMissing as error: assert 'get_compiled@engine' in str(error) and '{n: 8, ' in str(error), error\n"
        "else: raise AssertionError\n",
        path=[site],
    )


def test_the_recording() -> None:
    (manifest,) = blocks(PAGE, "yaml")
    (entry,) = parse_manifest(manifest.encode(), Path("page.yaml")).entries
    assert entry.source is not None
    place, _, library = entry.source.partition("@")
    assert entry.op == library_named(library).op(place)


@pytest.mark.parametrize(
    "line", sorted(text for text in quoted(PAGE) if text.startswith("python -m precast.loader.attach"))
)
def test_every_command_line_of_attach_runs(line: str, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("print('served')")
    done = run(*shlex.split(line)[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr


def test_every_name_of_attach_exists() -> None:
    from precast.loader import attach

    wanted = {"KernelMissing", "NoCompiler", "Decorator", "CacheAttribute", "CompileFunctions"}
    text = " ".join(quoted(PAGE))
    assert {name for name in wanted if name not in text} == set()
    assert {name for name in wanted if not hasattr(attach, name)} == set()

"""The examples in the documentation run, word for word where they can run without a GPU."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from precast.build.plan.manifest import parse_manifest
from tests.end_to_end.conftest import Run
from tests.helpers.pages import PAGES, blocks, text_of
from tests.helpers.source_tree import ROOT

WITHOUT_A_GPU = """
import ast, sys, torch
from precast import loader

def at_hopper(call):
    return lambda *args, **named: call(*args, **{"target": "sm_90a", **named})

loader.get, loader.preload, loader.explain = map(at_hopper, (loader.get, loader.preload, loader.explain))
names = {"x": torch.ones(64, dtype=torch.bfloat16), "out": torch.empty(64, dtype=torch.bfloat16)}
for statement in ast.parse(sys.stdin.read()).body:
    try:
        exec(compile(ast.Module([statement], []), "snippet", "exec"), names)
    except loader.NoCudaDevice:
        print("launched:", ast.unparse(statement))
"""
"""Runs statements as if an H100 were there: resolving for its architecture, and each launch ends in NoCudaDevice."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, precast: Run, no_torch: str) -> Path:
    """A folder with the whole example of docs/authoring.md, and the cache that is built of it."""
    folder = tmp_path_factory.mktemp("example")
    (module,), (manifest,) = blocks("docs/authoring.md", "python"), blocks("docs/authoring.md", "yaml")
    (folder / "mykernels.py").write_text(module)
    (folder / "mine.yaml").write_text(manifest)
    built = precast("build", "mine.yaml", "-o", "cache", cwd=folder, PYTHONPATH=no_torch)
    assert built.returncode == 0, built.stderr
    variants = re.findall(r"(\d+) (?:variants? built|reused)", built.stdout)  # other tests build some of them
    assert sum(map(int, variants)) == 8, built.stdout
    return folder


def run(code: str, cache: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRECAST_CACHE_PATH": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, input=text, capture_output=True, text=True, check=False
    )


def test_the_authoring_example(example: Path) -> None:
    done = run(
        "from precast import loader; k = loader.get('mine.add', {'dtype': 'bf16'}, target='sm_100a');"
        "print(k.signature, k.config['threads'])",
        example / "cache",
    )
    assert done.stdout == "(x: bfloat16[n0], out: bfloat16[n0], value: float32) 128\n", done.stderr


def test_the_files_of_the_example_are_those_of_the_page(example: Path) -> None:
    for name in ("mykernels.py", "mine.yaml"):
        assert (example / name).read_text() == (ROOT / "examples" / "add" / name).read_text()


@pytest.mark.slow
def test_the_example_refuses_what_it_does_not_support(example: Path, tmp_path: Path, precast: Run) -> None:
    shutil.copy(example / "mykernels.py", tmp_path)
    manifest = (example / "mine.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(manifest.replace("[128, 256]", "[128, 100]"))
    planned = precast("plan", "mine.yaml", cwd=tmp_path)
    assert planned.returncode == 2
    assert "threads must be a multiple of 32" in planned.stderr


@pytest.mark.slow
def test_the_ten_lines_of_the_readme_work(tmp_path: Path, precast: Run, no_torch: str) -> None:
    """What a reader types first: a kernel, its cache, its wheel; then a launch, which without a GPU ends there."""
    for line in blocks("README.md", "sh")[1].splitlines():
        if line.startswith("precast "):
            done = precast(*line.partition(" #")[0].split()[1:], cwd=tmp_path, PYTHONPATH=no_torch)
            assert done.returncode == 0, done.stdout + done.stderr
    assert [path.suffix for path in (tmp_path / "dist").iterdir()] == [".whl"]
    snippet = blocks("README.md", "python")[0].replace('"cuda"', '"cpu"')
    launched = run(WITHOUT_A_GPU, tmp_path / "cache", snippet)
    assert launched.returncode == 0, launched.stderr
    assert "launched: scaled(x, out, 1.5)" in launched.stdout


def test_the_readme_opens_with_a_picture_and_lines_that_work() -> None:
    """What an engine gains and its two lines; then at most ten lines of a kernel's whole way; no table."""
    text = text_of("README.md")
    shown = ['src="docs/images/engine.svg"', "```sh", 'src="docs/images/pipeline-short.svg"', "```python"]
    places = [text.index(mark) for mark in shown]
    assert places == sorted(places) and "\n|" not in text
    typed = [
        line
        for block in (blocks("README.md", "sh")[1], blocks("README.md", "python")[0])
        for line in block.splitlines()
    ]
    assert len([line for line in typed if line.strip()]) <= 10


def test_the_blocks_of_the_readme_need_no_scrolling_on_a_code_host() -> None:
    """Whose column has room for 92 letters of code."""
    assert not [
        line
        for kind in ("sh", "python", "yaml")
        for b in blocks("README.md", kind)
        for line in b.splitlines()
        if len(line) > 92
    ]


def test_the_readme_shows_lines_of_the_example() -> None:
    _, shown, _ = blocks("README.md", "python")
    (whole,) = blocks("docs/authoring.md", "python")
    known = {line.strip() for line in whole.splitlines()}
    wrong = []
    for line in filter(None, map(str.strip, shown.splitlines())):
        if "..." not in line and line not in known and not (line.startswith("@kernel(") and line[:-1] in whole):
            wrong.append(line)
    assert not wrong


@pytest.mark.slow
def test_the_loader_snippet_of_the_readme(example: Path) -> None:
    _, _, snippet = blocks("README.md", "python")
    done = run(WITHOUT_A_GPU, example / "cache", snippet)
    assert done.returncode == 0, done.stderr
    assert "launched: add(x, out, 1.5)" in done.stdout
    assert "mine.add {dtype: float32" in done.stdout, "loader.explain is printed"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_python_is_python(page: str) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES)
def test_every_manifest_is_one(page: str, tmp_path: Path) -> None:
    """Whole manifests as they are; entries alone in a manifest of their own. A script that a page names is there.

    A list of requests (``- {op: ...}`` with ``config``) is for ``precast native``, and no manifest.
    """
    (tmp_path / "warmup.py").touch()
    for block in (*blocks(page, "yaml"), *blocks(page, "yml")):
        if block.startswith("- {op:"):
            continue
        if block.lstrip().startswith("- "):
            block = f"version: 1\nname: entries\ntargets: [sm_90a]\nkernels:\n{block.replace('{...}', '{}')}"
        if "kernels" in yaml.safe_load(block):
            assert parse_manifest(block.encode(), tmp_path / "page.yaml").entries

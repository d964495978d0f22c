"""Compiled sources: what an edit of a kernel's file must change, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.disk.memo import Memo
from precast.build.inputs.closure import Closures, reads_of
from precast.build.inputs.compiled_source import compiled_source
from precast.build.inputs.sources import SourceDigests
from tests.helpers.inputs.project import Project

KERNEL = '''\
"""A kernel."""
from precast.kernels import kernel

SIZE = 4

def close_to(config):
    return Tolerance(0.1)

def _sum(x, y):
    return x + y

def reference(config, x, y):
    return _sum(x, y)

def problems(config): return [{"n": 4}]

def rows(config): return SIZE

@kernel(op="add", targets=["sm_90a"], tolerance=close_to, peer=lambda config: None, outputs=["out"])
def add(dtype: str):
    return rows(dtype)

def inputs(config, problem):
    return [problem["n"]]
'''
NOTHING = {
    "the body of the reference": ("return _sum(x, y)", "return _sum(y, x)"),
    "what only the reference calls": ("return x + y", "return y - x"),
    "the tolerance": ("Tolerance(0.1)", "Tolerance(0.25)"),
    "the problems": ('[{"n": 4}]', '[{"n": 8}, {"n": 16}]'),
    "a peer": ("lambda config: None", "lambda config: 7"),
    "longer inputs, below the kernel": ('return [problem["n"]]', 'n = problem["n"]\n    return [n]'),
}
SOMETHING = {
    "the kernel": ("return rows(dtype)", "return rows(dtype) + 1"),
    "what the kernel calls": ("return SIZE", "return 2 * SIZE"),
    "a constant": ("SIZE = 4", "SIZE = 8"),
    "the line of the kernel": ("return _sum(x, y)", "z = y\n    return _sum(x, z)"),
    "its targets": ("sm_90a", "sm_100a"),
    "its outputs": ('"out"', '"x"'),
    "a function that is of no use any more": ("tolerance=close_to", "tolerance=None"),
    "a comment beside the kernel": ("def rows", "# Rows.\ndef rows"),
}
USED = {
    "by the kernel": ("return rows(dtype)", "return rows(reference)"),
    "by its name": ("return rows(dtype)", 'return rows(globals()["reference"])'),
    "by another function": ("def rows(config): return SIZE", "def rows(config): return reference"),
    "by a decorator": ("def reference", "@once\ndef reference"),
    "in a default": ("reference(config, x, y)", "reference(config, x, y=count())"),
    "where it is defined twice": ("SIZE = 4", "def reference(): ..."),
}


def edited(text: str, edit: tuple[str, str]) -> bytes:
    assert text.count(edit[0]) == 1, edit
    return text.replace(*edit).encode()


@pytest.mark.parametrize("edit", NOTHING.values(), ids=NOTHING)
def test_an_edit_of_what_only_checks_a_kernel_changes_nothing(edit: tuple[str, str]) -> None:
    assert compiled_source(edited(KERNEL, edit)) == compiled_source(KERNEL.encode())


@pytest.mark.parametrize("edit", SOMETHING.values(), ids=SOMETHING)
def test_every_other_edit_changes_the_compiled_source(edit: tuple[str, str]) -> None:
    assert compiled_source(edited(KERNEL, edit)) != compiled_source(KERNEL.encode())


@pytest.mark.parametrize("use", USED.values(), ids=USED)
def test_a_function_that_a_compilation_could_run_counts(use: tuple[str, str]) -> None:
    before = edited(KERNEL, use).decode()
    body = "return _sum(x, y)"
    assert compiled_source(edited(before, (body, "return _sum(y, x)"))) != compiled_source(before.encode())


@pytest.mark.parametrize("content", [b"", b"x = (", b"\xff\xfe", b"def reference(): ...\n", KERNEL.encode("utf-16")])
def test_a_file_without_kernels_counts_whole(content: bytes) -> None:
    assert compiled_source(content) == content


@pytest.mark.parametrize(
    "text", ["add = kernel(op='add')(f)\n", "@cute.kernel\ndef f(): ...\n", "f.launch_kernel(x)\n"]
)
def test_a_library_is_not_parsed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Each build reads all files that a kernel of it reaches."""
    monkeypatch.setattr("precast.build.inputs.compiled_source.ast", None)
    assert compiled_source(text.encode()) == text.encode()


def test_lines_and_columns_are_those_of_bytes() -> None:
    text = "é = 1\r\ndef reference(): return 'ö'\r\n@kernel(op='a', tolerance='ü', peer=2)\r\ndef a(): return 'ß'\r\n"
    expected = "é = 1\r\n\r\n@kernel(op='a', tolerance=None, peer=None)\r\ndef a(): return 'ß'"
    assert compiled_source(text.encode()).decode() == expected


def test_a_module_that_another_one_imports_counts_whole(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write({"kernel.py": KERNEL, "other.py": "import kernel\n"})

    def names(module: str) -> tuple[str, ...]:
        return Closures.here([project.search]).of([reads_of(f"{module}:add")]).names

    assert "source:search/kernel.py" in names("kernel") and "file:search/kernel.py" not in names("kernel")
    assert "file:search/kernel.py" in names("other") and "source:search/kernel.py" not in names("other")
    both = Closures.here([project.search]).of([reads_of("kernel:add"), reads_of("other:add")]).names
    assert "file:search/kernel.py" in both and "source:search/kernel.py" not in both


@pytest.mark.parametrize("file", ["kernel.py", "helper.py"])
@pytest.mark.parametrize(
    "code",
    [
        "T = open('kernel.py').read()",
        "T = __file__",
        "import inspect",
        "from sys import modules",
        "T = list(globals())",
        "import numpy\nT = numpy.fromfile('kernel.py', 'u1')",
        "import pandas",
    ],
)
def test_where_code_may_read_sources_a_module_counts_whole(tmp_path: Path, code: str, file: str) -> None:
    project = Project(tmp_path / "project")
    files = {"helper.py": "", "kernel.py": f"import helper\n{KERNEL}"}
    project.write(files)
    project.write({file: f"{code}\n{files[file]}"})
    names = Closures.here([project.search]).of([reads_of("kernel:add")]).names
    assert "file:search/kernel.py" in names and "source:search/kernel.py" not in names


def test_where_the_package_has_a_module_in_machine_code_a_module_counts_whole(tmp_path: Path) -> None:
    """No text tells what it reads: its own names need not be in it."""
    project = Project(tmp_path / "project")
    project.write({"kernel.py": f"import native\n{KERNEL}", "native.abi3.so": "any bytes"})
    names = Closures.here([project.search]).of([reads_of("kernel:add")]).names
    assert "file:search/kernel.py" in names and "source:search/kernel.py" not in names


def test_notes_of_parsed_files_change_no_digest(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write({"kernel.py": KERNEL})
    memo = Memo(tmp_path / "notes")

    def digests(notes: Memo | None) -> tuple[str, str]:
        sources = SourceDigests([project.search], notes)
        return sources.digest("kernel:add"), sources.whole_digest("kernel:add")

    first = digests(None)
    assert digests(memo) == digests(memo) == first
    project.write({"kernel.py": edited(KERNEL, NOTHING["the tolerance"]).decode()})
    compiled, whole = digests(memo)
    assert compiled == first[0] and whole != first[1] and digests(None) == (compiled, whole)

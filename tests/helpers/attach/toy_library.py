"""A small library with compile functions, as pip would have installed it, which declares its seams itself."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.builds import HEAD

_SEAMS = """
import functools

import torch


@functools.cache
def compiled_alone(value):
    return compile_add(value)


@functools.cache
def compiled_pair(value):
    return compile_add(value), 8


@functools.cache
def compiled_closure(value):
    compiled = compile_add(value)

    def run(x):
        compiled(x)

    return run


@functools.cache
def compiled_twice(value):
    return compile_add(value), compile_add(value + 1)


def add_alone(x):
    compiled_alone(1)(x)


def add_pair(x):
    kernel, width = compiled_pair(2)
    assert width == 8
    kernel(x)


def add_closure(x):
    compiled_closure(3)(x)


def add_twice(x):
    for kernel in compiled_twice(4):
        kernel(x)
"""
_HOST_ONLY = """
import functools


@functools.cache
def compiled_alone(value):
    raise RuntimeError("nothing is compiled while a program is recorded")
"""
_DECLARED = """
from precast.loader.attach import Functions, Library

LIBRARY = Library(
    name="toy",
    distribution="toy-attached",
    package="toy_attached",
    seams=(Functions("toy_attached.kernels", {names!r}),),
)
"""


def write_toy_library(folder: Path, *, compiler: bool = True) -> Path:
    """Write the library ``toy``, package ``toy_attached``; the folder is to be on ``PYTHONPATH``.

    Without ``compiler`` it does not import the DSL, and has ``compiled_alone`` only.
    """
    names = (
        ("compiled_alone", "compiled_pair", "compiled_closure", "compiled_twice") if compiler else ("compiled_alone",)
    )
    package, info = folder / "toy_attached", folder / "toy_attached-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(f"{HEAD}\n{_SEAMS}" if compiler else _HOST_ONLY)
    (folder / "toy_seams.py").write_text(_DECLARED.format(names=names))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-attached\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[precast.libraries]\ntoy = toy_seams\n")
    return folder

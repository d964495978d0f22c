"""Compilations that no seam asks for: told apart from those that one does, counted, and written down."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from precast.attach.attachment import Attachment
from precast.attach.compiler import dsl
from precast.attach.recorder import Recorder
from precast.attach.recordings.recording import read_recording, read_untracked
from precast.attach.recordings.untracked_compiles import UntrackedCompile
from precast.attach.seams.cached_compile import CachedMapping, cached_compile
from precast.loader.errors import FormatError
from tests.helpers.attached import MINE

ONE = UntrackedCompile(place="m:f", compiled="m:g", arguments="(1)", reason="declare it")


@pytest.fixture
def compiler(own_imports: None) -> Any:
    """Stands for the DSL's class of ``cute.compile``."""
    module = ModuleType("cutlass.base_dsl.compiler")

    class CompileCallable:
        def __call__(self, compiled: Any, *args: Any) -> str:
            if callable(compiled):
                compiled()
            return "compiled"

    vars(module)["CompileCallable"] = CompileCallable
    return module


@pytest.fixture
def seen(compiler: Any) -> list[Any]:
    """What the hook tells of compilations that no seam asked for: what each compiles."""
    found: list[Any] = []
    dsl._change(compiler, lambda args, kwargs: found.append(args[0]))
    return found


def test_what_a_seam_asks_for_is_covered(compiler: Any, seen: list[Any]) -> None:
    compile_ = compiler.CompileCallable()
    attachment = Attachment("record", recorder=Recorder(None))
    function = cached_compile(attachment, MINE, lambda n: compile_("inside"), lambda n: compile_("inside"))
    assert function(1) == "compiled" == compile_("outside")
    assert seen == ["outside"]


def test_a_compilation_inside_another_is_part_of_it(compiler: Any, seen: list[Any]) -> None:
    compile_ = compiler.CompileCallable()

    def outer() -> None:
        compile_("inner")

    compile_(outer)
    assert seen == [outer]


def test_a_mapping_covers_what_its_library_files_and_nothing_after_it(compiler: Any, seen: list[Any]) -> None:
    compile_ = compiler.CompileCallable()
    mapping = CachedMapping(Attachment("record", recorder=Recorder(None)), MINE, "m:f", {})

    def library(fails: bool) -> None:
        if ("key", fails) not in mapping:
            kernel = compile_("filed")
            if fails:
                raise RuntimeError
            mapping["key", fails] = kernel
        compile_("besides")

    call = mapping.calls_of("m:f", library)
    call(False)
    with pytest.raises(RuntimeError):
        call(True)
    assert "asked outside of a call" not in mapping
    compile_("after")
    assert seen == ["besides", "after"]


def test_nothing_is_told_while_kernels_are_served(compiler: Any) -> None:
    dsl._change(compiler, None)
    assert compiler.CompileCallable()("any") == "compiled"


def test_counts_name_the_place_once_for_each_kernel() -> None:
    attachment = Attachment("record", recorder=Recorder(None))
    for value in (1, 2, 2):
        attachment.note_untracked((len, value), {"options": "-O3"})
    (count,) = attachment.counts()
    place = "test_counts_name_the_place_once_for_each_kernel"
    assert (count.function, count.hits, count.misses) == (f"{__name__}:{place}", 0, 2)
    (reason, _) = count.reasons
    assert reason == (f"no seam tracks builtins:len(1, options='-O3'): declare Functions({__name__!r}, ({place!r},))")
    assert attachment.recorder.recorded == ()


def test_a_recording_holds_both_kinds_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    for _ in range(2):
        Recorder(path).add(ONE)
    data = path.read_bytes() + b'{"library":"quack","compile":"quack.softmax:c","config":{"N":8}}\n'
    assert read_untracked(data) == (ONE,)
    assert [one.compile for one in read_recording(data)] == ["quack.softmax:c"]


@pytest.mark.parametrize(
    "line", [b'{"uncovered":[]}', b'{"uncovered":{"place":"m:f"}}', b'{"uncovered":{"place":1,"x":2}}', b"[]", b"1"]
)
def test_a_bad_line_is_named(line: bytes) -> None:
    data = line + b"\n" + ONE.text.encode()
    for read in (read_recording, read_untracked):
        with pytest.raises(FormatError, match="line 1 of the recording"):
            read(data)


def test_no_address_is_shown() -> None:
    class Tensor:
        shape, stride = (object(), 4), (1, 8)
        __cache_key__ = (int, (id(sys), 4), (1, 8))

    attachment = Attachment("record", recorder=Recorder(None))
    attachment.note_untracked((len, Tensor(), object()), {})
    assert "builtins:len(Tensor(int, (object, 4), (1, 8)), object)" in str(attachment)

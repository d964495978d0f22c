"""Tracebacks of authors' errors: the author's frames, and none of precast's or the compiler's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from precast.build.child.author_traceback import author_frames, author_traceback
from precast.build.compile.worker import Worker
from precast.build.gpu.profile import profile_named
from precast.build.ipc.message import Message
from precast.loader.contract.format.target import Target
from precast.loader.errors import PrecastError
from tests.helpers.builds import HEAD

FAILING = HEAD.replace("    i = cute.arch.thread_idx()[0]\n", "    i = cute.arch.thread_idx()[0]\n    helper()\n") + (
    "\ndef helper():\n    raise ValueError('three is too many')\n"
)


def call(module: str, body: str, **names: Any) -> Any:
    """A function ``f`` of a module with this name."""
    scope = {"__name__": module, **names}
    exec(compile(f"def f(*arguments):\n    {body}\n", f"/somewhere/{module}.py", "exec"), scope)
    return scope["f"]


def raised(function: Any) -> BaseException:
    """The error of a call that a worker makes."""
    body = "\n    try: inner()\n    except Exception as error: return error"
    error = call("precast.build.child.worker_main", body, inner=function)()
    assert isinstance(error, BaseException)
    return error


def test_frames_of_the_compiler_and_of_precast_are_left_out() -> None:
    kernel = call("acme.device", "raise ValueError('bad tile')")
    dsl = call("cutlass.base_dsl.dsl", "inner()", inner=kernel)
    author = call("acme.norms", "inner()", inner=dsl)
    error = raised(author)
    assert [f.filename for f in author_frames(error)] == ["/somewhere/acme.norms.py", "/somewhere/acme.device.py"]
    text = author_traceback(error)
    assert "base_dsl" not in text and "worker_main" not in text
    assert text.endswith("ValueError: bad tile\n")


def test_a_cause_is_shown_with_its_own_frames() -> None:
    cause = call("acme.tiles", "raise KeyError('m')")
    wrapped = call(
        "cutlass.cute.core",
        "\n    try: inner()\n    except KeyError as error: raise RuntimeError('no layout') from error",
        inner=cause,
    )
    text = author_traceback(raised(call("acme.norms", "inner()", inner=wrapped)))
    assert text.index("acme.tiles") < text.index("direct cause") < text.index("acme.norms")
    assert "cutlass.cute.core" not in text


def test_an_error_inside_the_compiler_keeps_its_frames() -> None:
    error = raised(call("cutlass.base_dsl.dsl", "raise TypeError('a bug')"))
    assert author_frames(error) == []
    assert "cutlass.base_dsl.dsl.py" in author_traceback(error)


def test_our_own_errors_say_it_all() -> None:
    error = PrecastError("name another function")
    assert "PrecastError: name another function\n" in author_traceback(error) + "\n"


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_an_error_in_a_kernel_shows_the_path_through_the_authors_code(tmp_path: Path) -> None:
    (tmp_path / "adding.py").write_text(FAILING)
    with Worker(Target.parse("sm_90a"), {}, [tmp_path], profile_named("H200")) as worker:
        worker.send(
            Message({"source": "adding:compile_add", "config": {"value": 3}, "symbols": ["entry"], "seconds": 60})
        )
        reply = worker.receive(120).header
    assert reply["error"] == "ValueError: three is too many"
    shown = [line.split(" in ")[1] for line in reply["traceback"].splitlines() if line.startswith("  File")]
    assert shown == ["compile_add", "add_host", "add_kernel", "helper"]

"""The pytest plugin: ``-p upstream.plugin --attach LIBRARY --mode MODE --results FILE``.

It attaches the library before any test is imported. Every test is counted by what it launched.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from .tally import Tally, judge  # as ``upstream``, since the tests may have a package ``tests`` of their own

_STORED = "precast"
_tally = Tally()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("precast")
    group.addoption("--attach", help="the library, by the name that precast.loader.attach knows")
    group.addoption("--mode", choices=["record", "frozen"], default="frozen")
    group.addoption("--recording", help="where --mode=record writes what was asked for; nothing is compiled")
    group.addoption("--without-compiler", action="store_true", help="the DSL is not installed")
    group.addoption("--results", type=Path, help="where a line of JSON is added for every test")
    group.addoption("--sample", type=int, default=0, help="how many tests of each function to keep, at random; 0: all")
    group.addoption("--traced", type=int, default=0, help="the same of those that go through torch.compile")
    group.addoption("--shard", default="1/1", help="which of so many parts of what is kept")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Attach before the tests' own conftest imports the library."""
    import torch  # noqa: F401  # the placeholders of an absent DSL come after it

    from precast.attach import attach

    options = early_config.known_args_namespace
    record = options.mode == "record"
    if record:
        agree()
    if not record and not options.without_compiler:
        forbid()
    count_launches()
    attach(
        [options.attach],
        mode=options.mode,
        missing="skip" if record else "raise",
        without_compiler=options.without_compiler,
        recording=options.recording,
    )


def agree() -> None:
    """From now on comparisons of tensors agree: in mode record nothing is launched, and a test is to go on."""
    import torch

    def yes(*args: Any, **named: Any) -> bool:
        return True

    def nothing(*args: Any, **named: Any) -> None:
        return None

    torch.allclose = torch.equal = torch.Tensor.allclose = torch.Tensor.equal = torch.Tensor.__bool__ = yes
    torch.testing.assert_close = nothing


def forbid() -> None:
    """From now on the compiler refuses, and each time it is asked is counted."""
    from cutlass.base_dsl.compiler import CompileCallable, Compiler

    def refuse(*args: Any, **kwargs: Any) -> Any:
        _tally.compiles += 1
        raise RuntimeError("a test asked the compiler itself, which precast's cache stands in for")

    CompileCallable.__call__ = refuse
    Compiler.compile = Compiler.jit = Compiler.compile_and_jit = refuse


class Counted:
    """A kernel of a cache, whose launches are counted."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __call__(self, *args: Any, **named: Any) -> Any:
        _tally.launches += 1
        return self._kernel(*args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def count_launches() -> None:
    """From now on every kernel that a seam takes from a cache is counted at its calls, and what no cache has is noted.

    An attachment has no place of its own for this: it hands kernels out as they are.
    """
    from precast.attach.attachment import Attachment

    look_up, missed = Attachment._look_up, Attachment._missed

    def counted(self: Attachment, *args: Any) -> Any:
        return Counted(look_up(self, *args))

    def noted(self: Attachment, function: str, key: bytes, reason: str, *rest: Any) -> Any:
        _tally.missing.append(f"{function}: {reason}")
        return missed(self, function, key, reason, *rest)

    Attachment._look_up, Attachment._missed = counted, noted  # type: ignore[method-assign, assignment]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of each test function, and say what is left out."""
    groups: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[item.nodeid.partition("[")[0], _is_traced(item)].append(item)
    kept: set[pytest.Item] = set()
    for (_, traced), found in groups.items():
        most = config.getoption("traced" if traced else "sample") or len(found)
        kept.update(random.Random(0).sample(found, min(most, len(found))))
    shard, shards = map(int, config.getoption("shard").split("/"))
    if shard == 1:
        left = [{"test": i.nodeid, "outcome": "left out", "reason": "", "launches": 0} for i in items if i not in kept]
        _write(config, left)
    items[:] = [item for item in items if item in kept][shard - 1 :: shards]


def _is_traced(item: Any) -> bool:
    return bool(getattr(item, "callspec", None) and item.callspec.params.get("use_compile"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _tally
    _tally = Tally()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Put the verdict in place of the test's own outcome."""
    report = yield
    if report.passed and report.when != "call":
        return report
    verdict = judge(report.outcome, _reason(report), _tally)
    if verdict.outcome in ("not built", "not applicable"):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {verdict.reason}")
    elif verdict.outcome == "failed" and report.passed:
        report.outcome, report.longrepr = "failed", verdict.reason
    stored = {"test": item.nodeid, "outcome": verdict.outcome, "reason": verdict.reason, "seconds": call.duration}
    _write(item.config, [{**stored, "launches": _tally.launches}])
    return report


def _reason(report: Any) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):  # an expected failure has a traceback
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "").strip()


def _write(config: pytest.Config, stored: list[dict[str, Any]]) -> None:
    with config.getoption("results").open("a") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in stored)

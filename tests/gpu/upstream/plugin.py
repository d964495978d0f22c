"""The pytest plugin: ``-p tests.gpu.upstream.plugin --library MODULE --results FILE``.

``MODULE`` replaces its library's compile calls (``install``). Every test is counted by what it launched.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.upstream.asked import Asked, NotApplicable, unsupported
from tests.gpu.upstream.tally import Tally, judge

_STORED = "precast"
_tally = Tally()
_results = Path()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("precast")
    group.addoption("--library", help="the module that replaces a library's compile calls")
    group.addoption("--results", type=Path, help="where a line of JSON is added for every test")
    group.addoption("--part", choices=["plain", "traced"], help="only the tests that go through torch.compile, or not")
    group.addoption("--traced", type=int, default=0, help="how many of the former to keep, at random")
    group.addoption("--shard", default="1/1", help="which of so many parts of what is kept")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    global _results
    _results = config.getoption("results")
    importlib.import_module(config.getoption("library")).install(answer)
    forbid()


def answer(translate: Callable[[], Asked]) -> Callable[..., Any]:
    """A kernel out of the cache, each of its launches counted."""
    try:
        asked = translate()
        _tally.asked.add(str(asked))
        kernel = held(asked)
    except NotApplicable as error:
        _tally.outside.append(str(error))
        raise

    def launch(*args: Any) -> Any:
        _tally.launches += 1
        return kernel(*args)

    return launch


def held(asked: Asked) -> Callable[..., Any]:
    """The cache's kernel, or the reason why there is none."""
    from precast import loader
    from precast.loader.errors import OpNotFound, VariantNotFound

    try:
        return loader.get(asked.op, {**asked.config, **asked.tuned})
    except (OpNotFound, VariantNotFound):
        import torch

        major, minor = torch.cuda.get_device_capability()
        reason = unsupported(asked, f"sm_{major}{minor}a")
        raise NotApplicable(reason or f"the cache does not hold {asked}") from None


def forbid() -> None:
    """From now on the compiler refuses, and each time it is asked is counted."""
    from cutlass.base_dsl.compiler import CompileCallable, Compiler

    def refuse(*args: Any, **kwargs: Any) -> Any:
        _tally.compiles += 1
        raise RuntimeError("a test asked the compiler itself, which precast's cache stands in for")

    CompileCallable.__call__ = refuse
    Compiler.compile = Compiler.jit = Compiler.compile_and_jit = refuse


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """torch.compile takes seconds a test: keep a sample of those, and say what is left out."""
    part = config.getoption("part")
    if part is None:
        return
    traced = [item for item in items if _traced(item)]
    if part == "plain":
        items[:] = [item for item in items if not _traced(item)]
        return
    shard, shards = map(int, config.getoption("shard").split("/"))
    kept = random.Random(0).sample(traced, min(config.getoption("traced"), len(traced)))
    items[:] = kept[shard - 1 :: shards]
    if shard == 1:
        _write([{"test": i.nodeid, "outcome": "left out", "reason": "", "launches": 0} for i in {*traced} - {*kept}])


def _traced(item: Any) -> bool:
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
    outside = _outside(call.excinfo.value if call.excinfo else None)
    outcome = "skipped" if outside else report.outcome
    verdict = judge(outcome, outside or _reason(report), _tally)
    if verdict.outcome == "not applicable":
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {verdict.reason}")
    elif verdict.outcome == "failed" and report.passed:
        report.outcome, report.longrepr = "failed", verdict.reason
    stored = {"test": item.nodeid, "outcome": verdict.outcome, "reason": verdict.reason, "seconds": call.duration}
    report.user_properties.append((_STORED, {**stored, "launches": _tally.launches, "asked": sorted(_tally.asked)}))
    return report


def _outside(error: BaseException | None) -> str:
    """The reason of the first error in a chain that says that something is not applicable."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, NotApplicable):
            return str(error)
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return ""


def _reason(report: Any) -> str:
    if report.skipped:
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "").strip()


def pytest_runtest_logreport(report: Any) -> None:
    _write([stored for key, stored in report.user_properties if key == _STORED])


def _write(stored: list[dict[str, Any]]) -> None:
    with _results.open("a") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in stored)

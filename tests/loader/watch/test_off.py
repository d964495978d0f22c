"""Without the variables the loader is what it was: no import, no other class, no other path of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.loader.launch.kernel import Kernel
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from precast.loader.session import Session
from precast.loader.watch.watched_kernel import WatchedKernel
from tests.helpers.caches import run_alone
from tests.helpers.echo import HOPPER, needs_call_path

SCRIPT = """
import os, sys
before = set(sys.modules)
for name in {variables!r}: os.environ[name] = {value!r}
import precast.loader
assert not [m for m in sys.modules if m.startswith("precast.loader.watch")], sys.modules
from precast.loader import session
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machines, replace
session.use(session.Session(machines=Machines(replace(Machines().host, capability=Capability(9, 0)))))
kernel = precast.loader.get("scale", {{"dtype": "bf16"}})
assert kernel(5) == 10 and type(session.default.memo) is dict
found = {{m for m in sys.modules if m.startswith("precast.loader.watch") or m in ("logging", "shutil", "atexit")}}
assert found <= {allowed!r} | before, found
"""


@needs_call_path
@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_imported(path: Path, value: str | None) -> None:
    variables = () if value is None else ("PRECAST_LOG", "PRECAST_REQUESTS")
    run_alone(SCRIPT.format(variables=variables, value=value, allowed=set()), path)


@needs_call_path
def test_a_log_that_is_switched_off_imports_no_logging(path: Path) -> None:
    allowed = {f"precast.loader.watch{name}" for name in ("", ".watch", ".notice")}
    run_alone(SCRIPT.format(variables=("PRECAST_LOG",), value="0", allowed=allowed), path)


@needs_call_path
def test_the_kernel_is_the_native_one(path: Path) -> None:
    """Its class, and what a call of it runs: the type of the call path, with no method of ours before it."""
    from precast.loader.launch.native_kernel import NativeKernel, ObjectKernel
    from precast.loader.native._callpath import Launcher

    session = Session(str(path), machines=Machines(HOPPER))
    kernel = session.get(Request(op="scale", config={"dtype": "bf16"}))
    assert session.watch is None
    assert type(kernel).__mro__[:4] == (ObjectKernel, NativeKernel, Launcher, Kernel)
    assert vars(type(kernel)).get("__call__") is vars(NativeKernel).get("__call__") is None


def test_with_a_variable_it_is_a_watched_one(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECAST_LOG", "1")
    monkeypatch.setenv("PRECAST_LOG_FILE", str(tmp_path / "log"))
    session = Session(str(path), machines=Machines(HOPPER))
    kernel = session.get(Request(op="scale", config={"dtype": "bf16"}))
    assert type(kernel) is WatchedKernel and kernel(5) == 10
    assert kernel.obstacle is None and kernel.launcher is None


@needs_call_path
def test_requests_alone_leave_the_kernel_as_it_is(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from precast.loader.launch.native_kernel import ObjectKernel

    monkeypatch.setenv("PRECAST_REQUESTS", str(tmp_path / "requests.jsonl"))
    session = Session(str(path), machines=Machines(HOPPER))
    assert type(session.get(Request(op="scale", config={"dtype": "bf16"}))) is ObjectKernel

"""The pytest plugin for a machine without a GPU: each test runs on tensors without memory, up to its assertions, and
what it asks to have compiled is written down (``--library MODULE --requests FILE``).

A test function that asks for nothing, with no parameters, is listed with what stopped it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.upstream.asked import Asked, NotApplicable

_asked: dict[str, Asked] = {}
_outside: set[str] = set()
_speaking: set[str] = set()
_silent: dict[str, str] = {}
_count = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("precast")
    group.addoption("--library", help="the module that replaces a library's compile calls")
    group.addoption("--requests", type=Path, help="where to write what is asked for, as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before the tests are imported, which asks for the device."""
    from precast.build.child.fact_recorder import FactRecorder
    from precast.build.child.fake_gpu import install_fake_gpu
    from precast.build.gpu.profile import profile_of
    from precast.loader.format.target import Target

    profile = profile_of(Target.parse("sm_90a"))
    install_fake_gpu(FactRecorder(profile.name, {name: fact.value for name, fact in profile.facts.items()}))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    import torch

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    cuda: Any = torch.cuda
    cuda.synchronize = cuda.empty_cache = nothing
    cuda.mem_get_info = lambda: (1 << 40, 1 << 40)
    torch.compile = lambda function, **_: function
    library = importlib.import_module(config.getoption("library"))
    library.install(answer)
    library.open_operators()


def answer(translate: Callable[[], Asked]) -> Callable[..., None]:
    """Note what is asked for, and launch nothing."""
    global _count
    _count += 1
    try:
        asked = translate()
    except NotApplicable as error:
        _outside.add(str(error))
        raise
    _asked[str(asked)] = asked
    return lambda *args: None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run a test without memory. It always fails, at its assertions at the latest; this is not reported."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    global _count
    _count, stopped = 0, ""
    names = pyfuncitem._fixtureinfo.argnames
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _here():
            pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    except (Exception, pytest.fail.Exception) as error:
        stopped = f"{type(error).__name__}: {error}".splitlines()[0]
    if _count:
        _speaking.add(pyfuncitem.originalname)
    else:
        _silent[pyfuncitem.originalname] = stopped or "ends without it"
    return True


def _here() -> Any:
    """What a test would put on the GPU has no memory anywhere, and autograd knows this machine's devices only."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Here(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.cuda:
                return args[0]
            if str((kwargs or {}).get("device", "")).startswith("cuda"):
                kwargs = {**kwargs, "device": "cpu"}
            return function(*args, **(kwargs or {}))

    return Here()


def pytest_sessionfinish(session: pytest.Session) -> None:
    requests = [{"op": a.op, "config": dict(a.config), "tuned": dict(a.tuned)} for _, a in sorted(_asked.items())]
    written = {
        "asked": requests,
        "outside": sorted(_outside),
        "silent": {name: _silent[name] for name in sorted(set(_silent) - _speaking)},
    }
    session.config.getoption("requests").write_text(json.dumps(written, indent=1))

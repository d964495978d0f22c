"""benchmarks/build.py observation: the observer that it compares with returns all fields of an observation."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from precast.build.inputs.observation import Observation
from tests.helpers.source_tree import ROOT


def test_an_observer_that_is_switched_off_returns_a_whole_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    section = importlib.import_module("build_sections.observation")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    names: dict[str, Any] = {}
    exec(section.SWITCH_OFF, names)
    module = SimpleNamespace(Observer=type("Observer", (), {}))
    names["switch_off_observer"](module)
    assert Observation.parse(module.Observer().observed()).complete

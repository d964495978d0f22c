"""A missing module is reported with the extra that installs it."""

from __future__ import annotations

from importlib.metadata import metadata

from precast.build.child.serve import failure
from precast.kernels.authoring.extras import EXTRAS, extra_hint


def test_every_extra_is_one_of_the_distribution() -> None:
    assert set(EXTRAS.values()) <= set(metadata("precast").get_all("Provides-Extra") or ())


def test_the_cause_of_an_error_is_what_counts() -> None:
    error = RuntimeError("importing it failed")
    error.__cause__ = ModuleNotFoundError("No module named 'quack.cache'", name="quack.cache")
    assert extra_hint(error) == "; pip install 'precast[quack]' installs it"
    assert extra_hint(ModuleNotFoundError("No module named 'numpy'", name="numpy")) == ""
    assert extra_hint(RuntimeError("torch")) == ""


def test_a_worker_says_it_too() -> None:
    reply = failure(ModuleNotFoundError("No module named 'torch'", name="torch")).header
    assert reply["error"] == "ModuleNotFoundError: No module named 'torch'; pip install 'precast[torch]' installs it"

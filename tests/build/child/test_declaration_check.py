"""A declaration is checked against what was compiled, and its functions are run once, on the CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from precast.build.child import declaration_check
from precast.build.child.declaration_check import NO_REFERENCE, advice, trial, wrong_names
from precast.kernels.authoring.declare import Declaration
from precast.loader.contract.format.signature import Argument, Signature

TAKES = Signature(
    arguments=tuple(Argument(name=name, kind="tensor", dtype="float32", shape=(8,)) for name in ("x", "out"))
)


def inputs(config: Any, problem: Mapping[str, int], *, device: Any, seed: int) -> dict[str, Any]:
    return {"x": torch.ones(problem["n"], device=device), "out": torch.empty(problem["n"], device=device)}


def reference(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": values["x"] * 2}


def declared(**changes: Any) -> Declaration:
    right: dict[str, Any] = {
        "outputs": ("out",), "problems": lambda config: [{"n": 8}, {"n": 1 << 30}], "inputs": inputs,
        "reference": reference,
    }  # fmt: skip
    return Declaration(op="double", keys=(), **(right | changes))


def raising(error: BaseException) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise error

    return function


def test_a_right_one_has_no_advice() -> None:
    assert (wrong_names(declared(), TAKES), trial(declared(), {}, TAKES), advice(declared(), {}, TAKES)) == ("", "", "")


@pytest.mark.parametrize("field", ["outputs", "in_place", "workspace"])
def test_a_name_that_the_kernel_does_not_take(field: str) -> None:
    text = wrong_names(declared(**{field: ("outt",)}), TAKES)
    assert text == f"{field}: the kernel takes no argument 'outt'; did you mean 'out'?"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"problems": raising(KeyError("rows"))}, "problems() failed with KeyError: 'rows'"),
        ({"inputs": raising(TypeError("no"))}, "inputs() failed with TypeError: no"),
        ({"inputs": lambda *a, **k: [1]}, "inputs() returned list: return a dict"),
        (
            {"inputs": lambda *a, **k: {"x": 1, "oout": 1}},
            "'oout', which the kernel does not take; did you mean 'out'?",
        ),
        ({"inputs": lambda *a, **k: {"x": 1}}, "inputs() makes no 'out', which the kernel takes"),
        ({"reference": raising(NameError("name 'y' is not defined"))}, "reference() failed with NameError: name 'y'"),
        ({"reference": lambda c, v: v["x"]}, "reference() returned Tensor: return a dict"),
        ({"reference": lambda c, v: {"y": v["x"]}}, "reference() returns y, and not 'out', which is an output"),
        ({"reference": lambda c, v: {"out": v["x"][:3]}}, "'out' of shape (3,), and the output has (8,)"),
        ({"reference": None}, NO_REFERENCE),
    ],
)
def test_a_mistake_of_the_author(change: dict[str, Any], text: str) -> None:
    assert text in advice(declared(**change), {}, TAKES)


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": raising(RuntimeError("Found no NVIDIA driver on your system"))},
        {"inputs": raising(ImportError("no torch here"))},
        {"reference": raising(NotImplementedError("'mul' not implemented for 'Float8'"))},
        {"problems": lambda config: [{"n": 1 << 30}], "inputs": raising(AssertionError("too large to be tried"))},
        {"problems": lambda config: []},
        {"problems": None},
        {"parts": {"first": ("x",)}, "reference": None},
    ],
)
def test_what_cannot_be_tried_here_is_no_mistake(change: dict[str, Any]) -> None:
    assert advice(declared(**change), {}, TAKES) == ""


def test_the_place_in_the_authors_file_is_named() -> None:
    namespace: dict[str, Any] = {"__name__": "mine"}
    exec(compile("def broken(config, values):\n    return values['z']\n", "mine.py", "exec"), namespace)
    assert advice(declared(reference=namespace["broken"]), {}, TAKES).endswith("KeyError: 'z' (mine.py:2)")


def test_a_function_that_hangs_or_crashes_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration_check, "SECONDS", 0.2)
    started = time.monotonic()
    assert advice(declared(reference=lambda c, v: time.sleep(60)), {}, TAKES) == ""
    assert advice(declared(reference=lambda c, v: os._exit(3)), {}, TAKES) == ""
    assert time.monotonic() - started < 20

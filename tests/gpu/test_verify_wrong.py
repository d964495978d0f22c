"""Kernels made wrong on purpose, each launched by ``verify`` and caught where it is wrong; what is right never is."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from precast import loader
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.contract.format.config import Config
from precast.loader.launch.kernel import Kernel
from precast.measure.checks.check import Check
from precast.measure.checks.verify import verify
from tests.gpu import variants

FOLDER = Path(__file__).with_name("wrong")
SHIPPED = variants.first_of_each()

# Of each kind, a scenario in which it must be caught, and what must be said of it there.
WRONG = {
    "tail": ("first run", "values differ"),
    "race": ("first run", "values differ"),
    "behind": ("first run", "behind out, "),
    "before": ("first run", "4 bytes before out, 1 from where it begins"),
    "unwritten": ("first run", "1 left unwritten or NaN"),
    "changed": ("first run", "an input was changed: 1 of "),
    "stride": ("first run", "values differ"),
    "stream": ("on a second stream", "values differ"),
    "zero": ("with zeros", "nan instead of 0"),
    "huge": ("first run", "the first at [33554432, 0]"),
    "again": ("second run", "values differ"),
}
LARGEST = {"rows": (1 << 31) // 64 + 3, "columns": 64, "padding": 0}


def checks_of(kind: str, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> Sequence[Check]:
    if f"wrong.{kind}" not in loader.ops():
        pytest.skip("no cache holds the wrong kernels: put one of tests/gpu/wrong.yaml in the kit")
    monkeypatch.syspath_prepend(FOLDER)
    declaration = declaration_of(load(FunctionRef.parse(f"wrong_kernels:{kind}")))
    kernel = loader.get(f"wrong.{kind}")
    return list(verify(kernel, declaration, kernel.config, seed=seed, huge=kind in ("huge", "right") and seed == 0))


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_kernel_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = checks_of(kind, monkeypatch)
    left_out = [check for check in checks if check.left_out and check.problem == LARGEST]
    if kind == "huge" and left_out:
        pytest.skip(str(left_out[0]))
    scenario, words = WRONG[kind]
    wrong = [check for check in checks if not check.passed]
    print("\n".join(map(str, wrong)))
    assert [check for check in wrong if check.scenario == scenario and words in check.fault]
    if kind in ("stream", "huge", "again"):  # and nothing else of it is blamed
        assert not [check for check in wrong if check.scenario == "first run" and check.problem != LARGEST]


def test_a_right_one_is_not_blamed_in_twenty_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in [0, *(secrets.randbelow(1 << 62) for _ in range(19))]:
        assert not [str(check) for check in checks_of("right", monkeypatch, seed) if not check.passed], seed


@pytest.mark.slow
@pytest.mark.parametrize("case", SHIPPED, ids=variants.name)
def test_no_op_is_blamed_in_twenty_runs(case: tuple[str, loader.Kernel]) -> None:
    """With fresh seeds; problems of more than 2**31 elements in the first run only."""
    op, variant = case
    declaration = variants.declared(op)
    if not declaration.verifiable:
        pytest.skip(f"{op} declares no reference to verify with")
    config: Config = dict(variant.artifact.config)
    kernel: Kernel = loader.get(op, config)
    for number in range(20):
        seed = secrets.randbelow(1 << 62)
        most = None if number == 0 else 1 << 24
        checks = verify(kernel, declaration, variant.artifact.config, seed=seed, most=most)
        blamed = [str(check) for check in checks if not check.passed]
        assert not blamed, f"seed {seed}\n" + "\n".join(blamed)


def test_least_alignment_and_streams_are_tried() -> None:
    """A kernel of this cache has a signature that says how its tensors are aligned."""
    import torch

    kernel = loader.get("scale", {"dtype": torch.float32})
    declaration = variants.declared("scale")
    checks = list(verify(kernel, declaration, kernel.config, problem={"n": 1000}))
    assert {check.scenario for check in checks if not check.left_out} == {
        "first run", "second run", "third run, beside other work", "on a second stream", "at the least alignment",
        "with NaN", "with infinity", "with zeros", "with denormals",
    }  # fmt: skip
    assert not [str(check) for check in checks if not check.passed]

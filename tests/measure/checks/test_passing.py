"""Kernels that are passed addresses of what ``inputs`` makes."""

from collections.abc import Mapping
from typing import Any

import pytest

from precast.kernels.authoring.composition import MULTICAST, Multicast, Window
from precast.kernels.authoring.declare import Declaration
from precast.measure.checks.passing import Passing
from precast.measure.checks.verify import verify

torch = pytest.importorskip("torch")


def declared(**fields: Any) -> Declaration:
    """Of a kernel that doubles ``x`` into two places, which it reaches by their addresses."""

    def inputs(config: Any, problem: Any, *, device: Any, seed: int) -> dict[str, Any]:
        return {"x": torch.arange(4.0), "places": torch.zeros(2, 4)}

    def reference(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"places": (2 * values["x"]).expand(2, 4)}

    return Declaration(
        op="double",
        keys=(),
        problems=lambda config: [{"n": 4}],
        inputs=inputs,
        outputs=("places",),
        reference=reference,
        special_values=(),
        **fields,
    )


def addresses(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """One address for each place."""
    return {"first": values["places"][0], "second": values["places"][1]}


def test_outputs_are_compared_that_a_kernel_reaches_only_through_addresses() -> None:
    """A kernel that forgets one of them is wrong."""

    def both(x: Any, places: Any, first: Any, second: Any) -> None:
        first.copy_(2 * x)
        second.copy_(2 * x)

    def one(x: Any, places: Any, first: Any, second: Any) -> None:
        first.copy_(2 * x)

    right = list(verify(both, declared(passes=addresses), {}, device="cpu"))
    wrong = list(verify(one, declared(passes=addresses), {}, device="cpu"))
    assert right and all(check.passed for check in right if not check.left_out)
    assert {check.output for check in wrong if not check.passed} == {"places"}


def test_one_gpu_runs_neither_multicast_memory_nor_several_ranks() -> None:
    """The reason is in the report."""
    memory = torch.zeros(2, 4)
    reasons = [
        Passing(print, lambda config, values, passed=passed: passed, {}).obstacle({})  # type: ignore[misc]
        for passed in ({"x": 1}, {"x": Multicast(memory)}, {"x": Window(memory, (100,))}, [{"x": 1}, {"x": 2}])
    ]
    assert reasons[0] == "" and "multicast" in reasons[1] and "part" in reasons[2] and "each rank" in reasons[3]


def test_an_address_of_multicast_memory_is_one_of_its_first_copy() -> None:
    """So it is aligned as that, and counts from before what is there."""
    copies = torch.zeros(3, 8, dtype=torch.float16)
    every = Multicast(copies, skipped=4)
    assert every.data_ptr() - MULTICAST == copies.data_ptr() - 8
    assert (every.count, every.step, every.dim(), tuple(every.stride())) == (3, 16, 1, (1,))


def test_a_window_has_the_strides_of_the_whole() -> None:
    """As a contiguous tensor."""
    assert Window(torch.zeros(2), (3, 4, 5)).stride() == (20, 5, 1)

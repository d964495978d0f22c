"""Decisions that are kept for the next problem: each is what deciding anew would give, and nothing is decided twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.errors import ConfigError
from precast.loader.machine.driver import Device
from precast.loader.machine.machine import Machine
from precast.loader.resolve.by_problem import Decisions
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.resolution import Resolution
from tests.helpers.caches import SCALE_KEYS, reader_of
from tests.helpers.resolutions import HERE, scale, source

HOPPER = Capability(9, 0)
H200, H100 = (
    replace(HERE, device=Device(ordinal=0, name=f"NVIDIA {name}", capability=HOPPER)) for name in ("H200", "H100")
)
VARIANTS = tuple(scale(threads=n, rank=n) for n in (1, 2, 3))
KEYS = [one.key for one in VARIANTS]


def measured_by(*rows: Measured) -> CachedOp:
    op = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=VARIANTS, tuning=rows)
    return replace(source(*VARIANTS), op=reader_of(op))


def row(*times: float, gpu: str = "NVIDIA H200", **problem: int) -> Measured:
    return Measured(gpu=gpu, capability=HOPPER, problem=problem, times=dict(zip(KEYS, times, strict=False)))


class Asked:
    """Decisions, and how often one was made anew."""

    def __init__(self, *rows: Measured) -> None:
        self.op, self.decisions, self.made = measured_by(*rows), Decisions(), 0

    def __call__(
        self, problem: Mapping[str, int], machine: Machine = H200, config: Mapping[str, object] | None = None
    ) -> Resolution:
        request = Request(op="scale", config={"dtype": "bf16", **(config or {})}, problem=problem)

        def anew() -> Resolution:
            self.made += 1
            return resolve(replace(request, problem=None), machine, [self.op], full=False)

        return self.decisions.of(request, machine, anew)


def test_a_second_problem_is_not_judged_again() -> None:
    ask = Asked(row(1.0, 2.0, m=8), row(2.0, 1.0, m=4096))
    first, second = (ask({"m": m}).chosen for m in (8, 4000))
    assert first and second and (first.config["threads"], second.config["threads"]) == (1, 2)
    assert ask.made == 1
    assert "no measurement for a problem of n" in str(ask({"n": 3})) and ask.made == 1


def test_another_gpu_config_or_type_is_judged_by_itself() -> None:
    ask = Asked(row(1.0, 2.0, m=8), row(2.0, 1.0, gpu="NVIDIA H100", m=8))
    one, other = ask({"m": 8}).chosen, ask({"m": 8}, H100).chosen
    assert one and other and (one.config["threads"], other.config["threads"]) == (1, 2) and ask.made == 2
    assert ask({"m": 8}, config={"threads": 1}).chosen == ask({"m": 9}, config={"threads": 1}).chosen
    assert ask.made == 3
    for made in (4, 5):  # what cannot be looked up is judged each time
        with pytest.raises(ConfigError, match="threads"):
            ask({"m": 8}, config={"threads": [1]})
        assert ask.made == made
    with pytest.raises(ConfigError, match="threads"):  # nor is True 1
        ask({"m": 8}, config={"threads": True})


def test_the_machine_is_the_one_that_was_asked() -> None:
    """Only that one knows which facts of the GPU the decision depends on."""
    ask = Asked(row(1.0, 2.0, m=8))
    before, again = ask({"m": 8}).machine, replace(H200)
    assert again is not before and ask({"m": 9}, again).machine is before


rows = st.lists(
    st.builds(
        lambda gpu, m, n, times: Measured(
            gpu=gpu, capability=HOPPER, problem={"m": m, **({"n": n} if n else {})}, times=times
        ),
        st.sampled_from(["NVIDIA H200", "NVIDIA H100"]),
        st.integers(0, 2**40),
        st.integers(0, 2),
        st.dictionaries(st.sampled_from(KEYS), st.floats(0.01, 1e9), min_size=1),
    ),
    max_size=8,
    unique_by=lambda m: m.place,
)
problems = st.fixed_dictionaries({"m": st.integers(0, 2**40)}, optional={"n": st.integers(0, 3)})


@given(rows, st.lists(problems, max_size=5), st.sampled_from([H200, H100]))
def test_each_is_what_deciding_anew_gives(
    table: list[Measured], asked: list[Mapping[str, int]], machine: Machine
) -> None:
    ask = Asked(*table)
    for problem in asked:
        request = Request(op="scale", config={"dtype": "bf16"}, problem=problem)
        assert str(ask(problem, machine)) == str(resolve(request, machine, [ask.op], full=False))

"""Tuning files for tests: any, and small ones about the op ``scale`` of the test caches."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from precast.build.measurements.tuning_file import Candidate, Gpu, Group, Sizes, TuningFile
from precast.loader.contract.format.target import Capability, Target
from precast.loader.contract.format.tuning.tiling import Tiling

GPUS = {"NVIDIA H200": Capability(9, 0), "NVIDIA B200": Capability(10, 0)}
DATES = tuple(f"2026-11-{day:02}T12:00:00Z" for day in (20, 21, 22))
CODES = ("0" * 16, "a" * 16, "f" * 16)

scalars = st.one_of(
    st.integers(-9, 9), st.booleans(), st.text("xyz ü", max_size=3), st.none(), st.floats(-1, 1).map(lambda x: x + 0.0)
)
values = st.one_of(scalars, st.lists(st.integers(0, 300), max_size=2).map(tuple))
times = st.floats(0.001, 1e6).map(lambda t: round(t, 3))
sizes = st.dictionaries(st.sampled_from("mnk"), st.integers(0, 9), min_size=1).map(lambda p: tuple(sorted(p.items())))
targets = st.sampled_from([Target(9, 0, "a"), Target(10, 0, "a")])
candidates = st.builds(
    Candidate,
    tuned=st.dictionaries(st.sampled_from(["tile", "stages"]), values, min_size=1),
    code=st.sampled_from(CODES),
    date=st.sampled_from(DATES),
    times=st.dictionaries(sizes, times, max_size=3),
    tiling=st.none() | st.builds(lambda axis: Tiling(tile={axis: 128}, at_once=132), st.sampled_from("mnk")),
)
groups = st.builds(
    Group,
    op=st.sampled_from(["gemm", "acme.norm"]),
    config=st.dictionaries(st.sampled_from(["dtype", "eps"]), values),
    target=targets,
    gpu=st.sampled_from(sorted(GPUS)),
    candidates=st.lists(candidates, max_size=3, unique_by=lambda c: c.identity).map(
        lambda found: tuple(sorted(found, key=lambda c: c.identity))
    ),
)


@st.composite
def files(draw: st.DrawFn) -> TuningFile:
    """Any file."""
    found = draw(st.lists(groups, max_size=4, unique_by=lambda g: g.identity))
    listed = tuple(
        draw(
            st.builds(
                Gpu,
                name=st.just(name),
                capability=st.just(GPUS[name]),
                driver=st.sampled_from(["580.65.06", ""]),
                date=st.sampled_from(DATES),
                sm_mhz=st.sampled_from([0, 1980]),
                memory_mhz=st.just(0),
            )
        )
        for name in sorted(GPUS)
    )
    return TuningFile(listed, tuple(sorted(found, key=lambda g: g.identity)))


def gpu(name: str = "NVIDIA H200", date: str = DATES[0]) -> Gpu:
    """A GPU on a day."""
    return Gpu(name=name, capability=GPUS[name], driver="580.65.06", date=date)


def scale_file(
    columns: Mapping[int, Mapping[Sizes, float]], *, dtype: str = "bfloat16", code: str = CODES[0], date: str = DATES[0]
) -> TuningFile:
    """What was measured of ``scale`` on an H200, by its one tuned key ``threads``."""
    found = tuple(
        Candidate(tuned={"threads": threads}, code=code, date=date, times=dict(column))
        for threads, column in sorted(columns.items(), key=lambda item: str(item[0]))
    )
    config = {"dtype": dtype, "layout": "row"}
    group = Group(op="scale", config=config, target=Target(9, 0, "a"), gpu="NVIDIA H200", candidates=found)
    return TuningFile((gpu(date=date),), (group,))

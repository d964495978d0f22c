"""Artifacts that were built for some GPU, on that GPU and on others: which is chosen, and why another is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import pytest

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Capability, Target
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.values import replace
from precast.loader.machine.driver import Device
from precast.loader.machine.machine import Machine
from precast.loader.resolve.assumptions import slower, unmet
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.judge import resolve, resolve_every
from precast.loader.resolve.resolution import Resolution
from tests.helpers.caches import SCALE_KEYS, reader_of
from tests.helpers.resolutions import HERE, scale, source

SMS, PAIRS = "multiprocessor_count", "max_active_clusters_2"
# What the loader asks of the driver on each of these: SMs and clusters of two blocks.
DEVICES: Mapping[str, tuple[Capability, dict[str, int]]] = {
    "H200": (Capability(9, 0), {SMS: 132, PAIRS: 66}),
    "H100 PCIe": (Capability(9, 0), {SMS: 114, PAIRS: 57}),
    "H20": (Capability(9, 0), {SMS: 78, PAIRS: 39}),
    "H200 MIG 1g.18gb": (Capability(9, 0), {SMS: 16, PAIRS: 8}),
    "B200": (Capability(10, 0), {SMS: 148, PAIRS: 74}),
    "B300": (Capability(10, 3), {SMS: 148, PAIRS: 74}),
}
ANY = Request(op="scale", config={"dtype": "bf16"})


def on(name: str, **facts: Any) -> Machine:
    capability, known = DEVICES[name]
    device = Device(ordinal=0, name=f"NVIDIA {name}", capability=capability)
    return replace(HERE, device=device, capability=capability, query={**known, **facts}.get)


def built_for(name: str, target: str = "", *, hint: bool = False, key: str = "", **more: Any) -> Artifact:
    """An artifact of a kernel that asks for the clusters of two blocks."""
    capability, facts = DEVICES[name]
    target = target or f"sm_{capability.major}{capability.minor}a"
    pairs, nothing = {PAIRS: facts[PAIRS]}, dict[str, int]()
    assumes = Assumptions(needs=nothing if hint else pairs, speed=pairs if hint else nothing)
    made: Artifact = scale(target, assumes=assumes, **more)
    # Of artifacts that are equal otherwise the key decides: the one for the smallest GPU would come first.
    return replace(made, key=key or f"{facts[PAIRS]:02x}" * 32)


def three(*, hint: bool = False) -> CachedOp:
    return source(*(built_for(name, hint=hint) for name in ("H200", "H100 PCIe", "H20")))


def decide(machine: Machine, *sources: CachedOp, request: Request = ANY) -> Resolution:
    """The whole decision; the short way to it must take the same one."""
    decision = resolve(request, machine, sources)
    assert choose(request, machine, sources) == decision.chosen
    every = resolve_every("scale", machine, sources)
    assert [a.candidate for a in every.accepted] == [a.candidate for a in decision.accepted]
    return decision


def pairs_of(decision: Resolution) -> int | None:
    """The clusters that the chosen artifact was built for."""
    if decision.chosen is None or decision.chosen.artifact.assumes is None:
        return None
    assumes = decision.chosen.artifact.assumes
    found = {**assumes.needs, **assumes.speed}[PAIRS]
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("hint", [False, True])
@pytest.mark.parametrize(("name", "pairs"), [("H200", 66), ("H100 PCIe", 57), ("H20", 39)])
def test_of_three_the_one_for_this_gpu_is_chosen(name: str, pairs: int, hint: bool) -> None:
    decision = decide(on(name), three(hint=hint))
    assert pairs_of(decision) == pairs
    assert len(decision.accepted) == (3 if hint else 1)
    assert not decision.accepted[0].reservation


@pytest.mark.parametrize(("name", "here"), [("H100 PCIe", 57), ("H20", 39), ("H200 MIG 1g.18gb", 8)])
def test_one_for_another_gpu_is_refused_with_the_fact_both_numbers_and_what_to_do(name: str, here: int) -> None:
    decision = decide(on(name), source(built_for("H200")))
    assert decision.chosen is None
    assert decision.rejected[0].reasons == (
        f"built for a GPU whose max_active_clusters_2 is 66, this one's is {here}: build it with this GPU among the"
        " manifest's 'profiles', or here with --profile-from-device",
    )
    assert "66, this one's is" in str(decision)
    assert "run 'precast build --profile-from-device' on this GPU, and install the cache:" in str(decision)
    other = decide(on(name), source(built_for("H200")), request=Request(op="scale", config={"dtype": "float16"}))
    assert "run 'precast build', and install the cache:" in str(other), "not the GPU is wrong, but the dtype"


@pytest.mark.parametrize(("name", "here"), [("H100 PCIe", 57), ("H20", 39), ("H200 MIG 1g.18gb", 8)])
def test_one_whose_number_only_costs_speed_is_taken_and_says_so(name: str, here: int) -> None:
    decision = decide(on(name), source(built_for("H200", hint=True)))
    assert pairs_of(decision) == 66
    told = f"taken.*max_active_clusters_2 is 66, this one's is {here}, which may cost speed: build it with this GPU"
    assert any(re.search(told, line) for line in str(decision).splitlines()), decision


def test_on_a_slice_none_of_three_is_right_and_the_first_is_taken_where_that_costs_speed() -> None:
    slice_ = on("H200 MIG 1g.18gb")
    assert decide(slice_, three()).chosen is None
    assert len(decide(slice_, three()).rejected) == 3
    assert pairs_of(decide(slice_, three(hint=True))) == 39, "by the artifact's key, as for all that are equal"


def test_blackwells_with_equal_numbers_share_a_family_target() -> None:
    family = source(built_for("B200", "sm_100f"))
    for name in ("B200", "B300"):
        assert pairs_of(decide(on(name), family)) == 74
    assert decide(on("B300"), source(built_for("B200", "sm_100a"))).chosen is None, "by the target alone"


def test_what_is_not_built_for_this_architecture_is_not_asked_about() -> None:
    asked: list[str] = []

    def ask(name: str) -> None:
        asked.append(name)

    machine = replace(on("B200"), query=ask)
    sources = [three(), source(built_for("B200", dtype="float32"), precedence=1)]
    assert choose(ANY, machine, sources) is None
    assert len(resolve(ANY, machine, sources).rejected) == 4 and asked == []


def test_nothing_is_compared_for_a_target_alone() -> None:
    supposed = on("H20").supposing(Target.parse("sm_90a"))
    decision = decide(supposed, three())
    assert len(decision.accepted) == 3 and not any(a.reservation for a in decision.accepted)


def test_a_fact_that_the_driver_cannot_tell() -> None:
    unknown = on("H200", **{PAIRS: None})
    refused = decide(unknown, source(built_for("H200"))).rejected[0].reasons[0]
    assert refused == (
        "built for a GPU whose max_active_clusters_2 is 66, and the driver cannot tell this one's: update the"
        " driver, or build it for the target with a kernel that does not ask"
    )
    (taken,) = decide(unknown, source(built_for("H200", hint=True))).accepted
    assert "the driver cannot tell this one's, which may cost speed" in taken.reservation


def test_both_kinds_of_facts_in_one_artifact() -> None:
    assumes = Assumptions(needs={SMS: 132}, speed={"l2_cache_size": 60 << 20})
    one = source(scale(assumes=assumes))
    assert decide(on("H20", l2_cache_size=60 << 20), one).chosen is None
    (taken,) = decide(on("H200", l2_cache_size=50 << 20), one).accepted
    assert "l2_cache_size is 62914560, this one's is 52428800" in taken.reservation
    (taken,) = decide(on("H200", l2_cache_size=60 << 20), one).accepted
    assert taken.reservation == ""


def test_an_artifact_that_states_nothing() -> None:
    plain = scale()
    assert (unmet(plain, on("H20")), slower(plain, on("H20"))) == (None, "")


def test_which_variant_is_best_does_not_depend_on_the_numbers() -> None:
    """The cache, the target and the author's order come first: a grid of another size costs less than another tile."""
    first = built_for("H200", hint=True, threads=1, rank=0)
    second = replace(scale(threads=2, rank=1), key="00" * 32)
    assert decide(on("H20"), source(first, second)).chosen.artifact == first  # type: ignore[union-attr]
    plain = scale("sm_90", threads=1)
    assert decide(on("H20"), source(plain, first)).chosen.artifact == first  # type: ignore[union-attr]


@pytest.mark.parametrize("hint", [False, True])
def test_another_cache_may_have_the_same_variant_for_this_gpu(hint: bool) -> None:
    caches = [source(built_for("H200", hint=hint)), source(built_for("H20", hint=hint), precedence=1)]
    for order in itertools.permutations(caches):
        assert pairs_of(decide(on("H20"), *order)) == 39
        assert pairs_of(decide(on("H200"), *order)) == 66


def test_measurements_choose_among_the_artifacts_for_this_gpu() -> None:
    made = {
        (name, threads): built_for(name, hint=True, threads=threads, rank=threads, key=f"{n:02x}" * 32)
        for n, (name, threads) in enumerate(itertools.product(("H200", "H20"), (1, 2)))
    }

    def measured(name: str, *times: float) -> Measured:
        keys = [made[name, threads].key for threads in (1, 2)]
        gpu, (capability, _) = f"NVIDIA {name}", DEVICES[name]
        return Measured(gpu=gpu, capability=capability, problem={"m": 1}, times=dict(zip(keys, times, strict=True)))

    table = (measured("H200", 1.0, 2.0), measured("H20", 9.0, 5.0))
    base = source(*made.values())
    op = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=tuple(made.values()), tuning=table)
    one = replace(base, op=reader_of(op))
    request = replace(ANY, problem={"m": 1})
    assert resolve(request, on("H200"), [one]).chosen.artifact == made["H200", 1]  # type: ignore[union-attr]
    assert resolve(request, on("H20"), [one]).chosen.artifact == made["H20", 2]  # type: ignore[union-attr]
    # What was measured of the other GPU's artifacts does not bring one of these here.
    one = replace(base, op=reader_of(replace(op, tuning=table[1:])))
    assert one.op.tuning == table[1:], "the rows are sorted by the GPU"
    decision = resolve(request, on("H200"), [one])
    assert decision.chosen is not None and decision.chosen.artifact == made["H200", 1]
    assert "has no measurement for a problem of m on such a GPU" in str(decision)


def test_a_measurement_on_another_gpu_is_used_and_said_to_be_of_another() -> None:
    made = scale(threads=1)
    row = Measured(gpu="NVIDIA H200", capability=Capability(9, 0), problem={"m": 1}, times={made.key: 3.0})
    base = source(made)
    op = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=(made,), tuning=(row,))
    one = replace(base, op=reader_of(op))
    request = replace(ANY, problem={"m": 1})
    text = str(resolve(request, on("H100 PCIe"), [one]))
    assert "3 us at m=1 on NVIDIA H200, which is another GPU than this NVIDIA H100 PCIe: measure here with" in text
    slice_ = str(resolve(request, on("H200 MIG 1g.18gb"), [one]))
    assert "another GPU than this NVIDIA H200 MIG 1g.18gb" in slice_
    for same in (on("H200"), on("H200").supposing(Target.parse("sm_90a"))):
        assert "another GPU" not in str(resolve(request, same, [one]))

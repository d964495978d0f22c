"""Choosing among tuned variants by measurement: which one counts, and what happens where none does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table_writer import tables_of
from precast.loader.errors import ConfigError, FormatError
from precast.loader.machine.driver import Device
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.resolution import Resolution
from tests.helpers.caches import SCALE_KEYS, Native, demo, reader_of
from tests.helpers.resolutions import HERE, distance, fastest, scale, source

HOPPER = Capability(9, 0)
H200 = replace(HERE, device=Device(ordinal=0, name="NVIDIA H200", capability=HOPPER))
ONE, TWO = scale(threads=1, rank=0), scale(threads=2, rank=1)


def measured(gpu: str = "NVIDIA H200", capability: Capability = HOPPER, **more: Any) -> Measured:
    times = {a.key: t for a, t in zip((ONE, TWO), more.pop("times"), strict=False) if t}
    return Measured(gpu=gpu, capability=capability, problem=more, times=times)


def tuned(*table: Measured, artifacts: tuple[Artifact, ...] = (ONE, TWO)) -> CachedOp:
    base = source(*artifacts)
    index = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=artifacts, tuning=table)
    return replace(base, op=reader_of(index))


def ask(one: CachedOp, problem: dict[str, int] | None, machine: Machine = H200, **config: object) -> Resolution:
    return resolve(Request(op="scale", config={"dtype": "bf16", **config}, problem=problem), machine, [one])


def threads(resolution: Resolution) -> Any:
    assert resolution.chosen is not None
    return resolution.chosen.config["threads"]


def test_the_nearest_measurement_decides() -> None:
    one = tuned(measured(m=16, n=64, times=(1.0, 2.0)), measured(m=4096, n=64, times=(9.0, 4.5)))
    assert threads(ask(one, {"m": 20, "n": 64})) == 1
    found = ask(one, {"m": 3000, "n": 64})
    assert threads(found) == 2 and len(found.accepted) == 2
    assert "4.5 us at m=4096 n=64 on NVIDIA H200" in str(found)
    assert threads(ask(one, None)) == 1, "without a problem the author's order decides"
    assert threads(ask(one, {"m": 3000, "n": 64}, threads=1)) == 1, "a pinned key stays pinned"


def test_far_and_near_are_ratios() -> None:
    """512 is nearer to 256 than to 2048, though 1024 lies between 256 and 2048 the other way round."""
    one = tuned(measured(m=256, times=(1.0, 2.0)), measured(m=2048, times=(2.0, 1.0)))
    assert threads(ask(one, {"m": 512})) == 1 and threads(ask(one, {"m": 1200})) == 2


def test_this_gpu_before_its_kind_before_nothing() -> None:
    own, kin = measured(m=4096, times=(2.0, 1.0)), measured("NVIDIA H100", m=8, times=(1.0, 2.0))
    other = measured("NVIDIA B200", Capability(10, 0), m=8, times=(2.0, 1.0))
    assert threads(ask(tuned(own, kin), {"m": 8})) == 2, "another size on this very GPU"
    assert threads(ask(tuned(kin, other), {"m": 8})) == 1, "another GPU of this capability"
    nothing = ask(tuned(other), {"m": 8})
    assert threads(nothing) == 1 and "the author's order decided" in str(nothing)
    supposed = replace(HERE, device=None)
    assert threads(ask(tuned(measured(m=8, times=(2.0, 1.0))), {"m": 8}, supposed)) == 2


@pytest.mark.parametrize("problem", [{"n": 8}, {"m": 8, "n": 8}, {}])
def test_other_axes_do_not_count(problem: dict[str, int]) -> None:
    found = ask(tuned(measured(m=8, times=(2.0, 1.0))), problem)
    assert threads(found) == 1 and "no measurement" in str(found)


def test_what_was_not_measured_is_not_taken_for_slow_or_fast() -> None:
    found = ask(tuned(measured(m=8, times=(2.0, None)), measured(m=64, times=(2.0, 1.0))), {"m": 8})
    assert threads(found) == 1
    alone = ask(tuned(measured(m=8, times=(None, 7.0))), {"m": 8})
    assert threads(alone) == 2, "measured goes before not measured"


def test_a_better_target_goes_before_a_better_time() -> None:
    plain = scale("sm_90", threads=3)
    times = {ONE.key: 9.0, plain.key: 1.0}
    table = Measured(gpu="NVIDIA H200", capability=HOPPER, problem={"m": 8}, times=times)
    assert threads(ask(tuned(table, artifacts=(ONE, plain)), {"m": 8})) == 1


def test_one_name_with_two_capabilities_is_read_in_one_order() -> None:
    rows = [
        Measured(gpu="NVIDIA H200", capability=capability, problem={"m": 8}, times={"a": first, "b": 3.0 - first})
        for capability, first in ((HOPPER, 1.0), (Capability(10, 0), 2.0))
    ]
    for table in (rows, rows[::-1]):
        choice = fastest(table, {"m": 8}, "ab", gpu="NVIDIA H200", capability=HOPPER)
        assert choice is not None and (choice.key, choice.measured) == ("a", rows[0])


sizes = st.fixed_dictionaries({"m": st.integers(0, 2**40), "n": st.integers(0, 2**40)})
tables = st.lists(
    st.builds(
        Measured,
        gpu=st.sampled_from(["NVIDIA H200", "NVIDIA H100", "NVIDIA B200"]),
        capability=st.sampled_from([HOPPER, Capability(10, 0)]),
        problem=sizes,
        times=st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1.0, 2.0, 3.0]), min_size=1),
    ),
    max_size=6,
    unique_by=lambda m: m.place,
)


@given(table=tables, problem=sizes, keys=st.permutations("abc"), data=st.data())
def test_the_choice(table: list[Measured], problem: dict[str, int], keys: list[str], data: st.DataObject) -> None:
    """The order of a table decides nothing. What is reported is the nearest measurement of the choice."""
    choice = fastest(table, problem, keys, gpu="NVIDIA H200", capability=HOPPER)
    shuffled = data.draw(st.permutations(table))
    assert fastest(shuffled, problem, keys, gpu="NVIDIA H200", capability=HOPPER) == choice
    usable = [m for m in table if set(m.times) & set(keys)]
    if choice is None:
        assert not any(m.gpu == "NVIDIA H200" or m.capability == HOPPER for m in usable)
        return
    times = choice.measured.times
    assert choice.key in keys and choice.key in times
    assert choice.exact == (choice.measured.problem == problem)
    assert not choice.exact or times[choice.key] == min(times[k] for k in keys if k in times)
    rivals = (
        [m for m in usable if m.gpu == choice.measured.gpu and choice.key in m.times]
        if choice.measured.gpu == "NVIDIA H200"
        else []
    )
    assert all(distance(problem, m.problem) >= distance(problem, choice.measured.problem) for m in rivals)
    if any(m.gpu == "NVIDIA H200" for m in usable):
        assert choice.measured.gpu == "NVIDIA H200"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"times": {"x": 1.0}}, "not an artifact's key"),
        ({"times": {ONE.key: 0}}, "a positive number"),
        ({"times": {ONE.key: True}}, "a positive number"),
        ({"times": {ONE.key: 1e300}}, "a positive number"),
        ({"times": {ONE.key: "1"}}, "a positive number"),
        ({"problem": {}}, "expected a problem"),
        ({"problem": {"m": -1}}, "is not between"),
        ({"problem": {"m": 1.5}}, "expected int"),
        ({"problem": {"m\n": 1}}, "expected a problem"),
        ({"capability": "9"}, "not a compute capability"),
        ({"gpu": ""}, "not the name of a GPU"),
        ({"speed": 1}, "unknown key"),
        ({"tilings": {TWO.key: {"at_once": 0, "tile": {"m": 8}}}}, "expected 1 or more"),
        ({"tilings": {TWO.key: {"at_once": 1, "tile": {"m": 0}}}}, "expected 1 or more"),
        ({"tilings": {TWO.key: {"at_once": 1, "tile": {"n": 1}}}}, "an axis that the problem does not have"),
        ({"tilings": {"f" * 64: {"at_once": 1, "tile": {"m": 1}}}}, "this artifact has no time"),
    ],
)
def test_a_measurement_that_is_not_valid_is_refused(change: dict[str, Any], words: str) -> None:
    good = measured(m=8, times=(2.0, 1.0))
    assert Measured.parse(good.to_json()) == good
    with pytest.raises(FormatError, match=words):
        Measured.parse({**good.to_json(), **change})


def test_a_damaged_table_is_an_error_to_read_and_a_note_in_a_decision() -> None:
    """A bad table must not cost the kernel."""
    good = [table.to_json() for table in tables_of([measured(m=8, times=(2.0, 1.0))], {})]
    bad = reader_of(tuned().op.index, tuning=[*good, *good])
    with pytest.raises(FormatError, match=r"occurs twice.*'ops/scale\.json:\.tuning\[1\]\.rows\[0\]'"):
        _ = bad.tuning
    found = ask(replace(tuned(), op=bad), {"m": 8})
    assert threads(found) == 1 and "measurements of cache 'c0' were left out" in str(found)
    assert "'ops/scale.json:.tuning': build the cache again, or reinstall it" in str(found)


def test_a_table_goes_round() -> None:
    op = tuned(measured(m=64, times=(2.0, 1.0)), measured(m=8, times=(1.5, None))).op
    again = OpReader.decode(op.index.encode(), op="scale")
    assert again.tuning == op.tuning and again.index == op.index
    assert [m.problem["m"] for m in again.tuning] == [64, 8], "sorted as text: '64' before '8'"
    assert "tuning" not in json.loads(tuned().op.index.encode())


def test_get_by_problem(native: Native, tmp_path: Path, use: Callable[..., None]) -> None:
    writer = demo(native)
    op = writer.ops["scale"]
    keys = {a.config["threads"]: a.key for a in op.artifacts if a.config["dtype"] == "bfloat16" and a.target.major == 9}
    table = Measured(gpu="H", capability=HOPPER, problem={"n": 1024}, times={keys[128]: 1.0, keys[256]: 2.0})
    writer.ops["scale"] = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=op.artifacts, tuning=(table,))
    use(writer.write(tmp_path / "cache"))

    def get(**more: Any) -> Any:
        return loader.get("scale", {"dtype": "bf16"}, target="sm_90a", **more).config["threads"]

    assert [get(), get(problem={"n": 4096}), get(), get(problem={"n": 4096}), get(problem={"m": 1})] == [
        256, 128, 256, 128, 256,
    ]  # fmt: skip
    with pytest.raises(loader.ConfigError, match="give sizes by name"):
        get(problem={"n": 1.5})


TEXT_KEYS = (Key(name="dtype", type="str"), Key(name="kv_dtype", type="any", has_default=True, default=None))


def texts(*dtypes: str, **more: Any) -> CachedOp:
    rows = [scale(dtype=d) for d in dtypes]
    rows = [replace(r, config={"dtype": d, "kv_dtype": None, **more}) for r, d in zip(rows, dtypes, strict=True)]
    return source(*rows, keys=TEXT_KEYS)


def test_a_plain_functions_dtype_goes_by_any_name() -> None:
    torch = pytest.importorskip("torch")

    one = texts("bfloat16", "fp16", "nvfp4")

    def found(**config: object) -> str:
        chosen = resolve(Request(op="scale", config=config), HERE, [one], full=False).chosen
        return str(chosen.config["dtype"]) if chosen else ""

    for name in ("bf16", "bfloat16", torch.bfloat16):
        assert found(dtype=name) == "bfloat16"
    assert found(dtype="half") == found(dtype=torch.float16) == "fp16"
    assert found(dtype="nvfp4") == "nvfp4", "a name that is no dtype is a text like any other"
    assert not found(dtype="float32") and not found(dtype="fp4") and not found(dtype="bf16", kv_dtype="bf16")
    with pytest.raises(loader.ConfigError):
        found(dtype=float)  # float32 in one library, float64 in another


def test_two_spellings_are_two_variants() -> None:
    one = texts("bf16", "bfloat16")
    for name in ("bf16", "bfloat16"):
        found = resolve(Request(op="scale", config={"dtype": name}), HERE, [one])
        assert found.chosen is not None and found.chosen.config["dtype"] == name and len(found.accepted) == 2
        assert choose(Request(op="scale", config={"dtype": name}), HERE, [one]) == found.chosen


def test_a_text_under_another_name_is_no_dtype() -> None:
    keys = (Key(name="mode", type="str"),)
    one = source(replace(scale(), config={"mode": "half"}), keys=keys)
    assert resolve(Request(op="scale", config={"mode": "float16"}), HERE, [one]).chosen is None


def test_the_nearest_number_is_the_nearest_variant() -> None:
    keys = (Key(name="hidden", type="int"), Key(name="dtype", type="str"))
    sizes = (128, 8192, 4096, 1024, 65536)
    rows = [replace(scale(), key=f"{n:064x}", config={"hidden": n, "dtype": "bf16"}) for n in sizes]
    found = resolve(Request(op="scale", config={"hidden": 4097, "dtype": "bf16"}), HERE, [source(*rows, keys=keys)])
    assert [r.candidate.config["hidden"] for r in found.rejected] == [4096, 8192, 1024, 65536, 128]
    assert all(0 < r.distance < 1 and math.isfinite(r.distance) for r in found.rejected)
    assert "nearest: {dtype: bf16, hidden: 4096" in str(found)


def test_of_caches_that_all_refuse_the_first_one_says_why() -> None:
    """However they are listed."""
    sources = [source(scale(), keys=SCALE_KEYS[:1], precedence=1), source(scale(), precedence=0)]
    request = Request(op="scale", config={"layuot": "row"})
    for listed in (sources, sources[::-1]):
        with pytest.raises(ConfigError, match="did you mean 'layout'"):
            choose(request, HERE, listed)

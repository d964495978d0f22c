"""libprecast decides as the Python loader does: of random caches and requests, the same order and the same reasons."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format.artifact import Artifact, Host
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.config import Key, to_json, to_value
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.resolution import Resolution
from precast.loader.session import Session
from tests.helpers.caches import HOST, CacheWriter, Native, artifact
from tests.helpers.gpu.programs import PROGRAM, SIGNATURE
from tests.helpers.native.libprecast import LibprecastReader

ROW = re.compile(r"  (taken|fits|refused) +\S+ +\S+ +([0-9a-f]{12})  \S+  \{[^}]*\}(?:  (.*))?")
TARGETS = ("sm_90", "sm_90a", "sm_90a", "sm_80", "sm_100a", "sm_100f", "sm_103a")
VALUES: dict[str, tuple[Any, ...]] = {
    "dtype": ("bf16", "bfloat16", "torch.half", "fp8", "no_dtype", 3, None),
    "str": ("row", "bf16", "bfloat16", "half", "", 1),
    "int": (0, 1, -7, 2**63 - 1, 2**70, True, 1.0, "1"),
    "float": (0.0, -0.0, 1, 1e-6, 2.5, 1e16, 1e22, True, "x"),
    "bool": (True, False, 1, None),
    "any": (None, True, 1, 1.0, "bf16", [1, [2.5, "x"]], {"a": 1}),
    "list[int]": ([], [1, 2], [1, 2, 3], [1, "x"], 5),
    "list[dtype]?": (None, ["bf16"], ["half", "fp32"], ["x"]),
}
GOOD: dict[str, tuple[Any, ...]] = {
    "dtype": ("bfloat16", "float16", "float8_e4m3fn"),
    "str": ("row", "bf16", "half"),
    "int": (0, 1, -7, 2**63 - 1),
    "float": (0.0, 1e-6, 2.5, 1e16),
    "bool": (True, False),
    "any": (None, True, 1, 1.0, "bf16", "bfloat16", [1, [2.5, "x"]]),
    "list[int]": ([], [1, 2], [1, 2, 3]),
    "list[dtype]?": (None, ["bfloat16"], ["float16", "float32"]),
}
NAMES = ("dtype", "out_dtype", "layout", "n")
OUTPUT = "y"
"""A key that may be for an optional output: the kernels have a tensor of this name."""


@st.composite
def keys_of_an_op(draw: st.DrawFn, most: int = 3) -> tuple[Key, ...]:
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=min(1, most), max_size=most, unique=True)):
        kind = draw(st.sampled_from(sorted(GOOD)))
        good = st.sampled_from(GOOD[kind])
        has_default = draw(st.booleans())
        choices: Any = draw(st.just(()) | st.lists(good, min_size=1, max_size=2).map(to_value))
        made.append(
            Key(
                name=name,
                type=kind,
                tuned=draw(st.booleans()),
                has_default=has_default,
                default=draw(st.sampled_from(choices) if choices else good.map(to_value)) if has_default else None,
                choices=choices,
            )
        )
    if not most or draw(st.booleans()):
        made.append(Key(name=OUTPUT, type="bool", has_default=True, default=draw(st.integers(0, 3)) == 3))
    return tuple(made)


HOSTS = st.sampled_from((*[HOST] * 18, Host(arch=HOST.arch, glibc="2.999"), Host(arch="aarch64", glibc="2.17")))
LAUNCHED: tuple[dict[str, Any] | None, ...] = (
    None,
    None,
    None,
    {"program": PROGRAM},
    {"program": PROGRAM},
    {},
)
"""How a cubin is launched; None for an object."""
FACTS = st.fixed_dictionaries(
    {}, optional={"multiprocessor_count": st.sampled_from((132, 148)), "warp_size": st.just(0)}
)
CHECKS = st.fixed_dictionaries(
    {"check": st.sampled_from(("verify", "emulate", "bench")), "capability": st.sampled_from(("9.0", "10.0"))},
    optional={"failed": st.sampled_from(([], ["x is wrong"]))},
)


@dataclass(frozen=True)
class Purpose:
    """What most draws of a run are to come to, and the least of them that do, so that no decision is met by luck."""

    outcome: str
    least: int
    targets: Sequence[str] = TARGETS
    launched: Sequence[dict[str, Any] | None] = LAUNCHED
    keys: int = 3
    """The most keys beside the one of an optional output."""
    wishes: Sequence[int] = range(20)
    """Of a key: below 14 a value that it takes, 18 any value, 19 one for its type, right or wrong; else none."""
    writes: Sequence[bool] = (False, True)
    """Whether a kernel has the tensor of an optional output."""
    checked: Sequence[int] = (0, 1, 2)
    """How often a kernel was checked."""


RIGHT, WRONG, DEFAULTS = (0,), (0, 18, 19), (14,)
PURPOSES = (
    Purpose("served", 10),
    Purpose("wrong", 25, wishes=WRONG),
    Purpose("measured", 10, targets=("sm_90a",), wishes=RIGHT),
    Purpose("one more output", 8, ("sm_90a",), (None,), keys=0, wishes=DEFAULTS, writes=(True,), checked=(0,)),
    Purpose("taken: object", 15, targets=("sm_90", "sm_90a"), launched=(None,), wishes=RIGHT),
    Purpose("taken: cubin", 15, targets=("sm_90", "sm_90a"), launched=({"program": PROGRAM},), wishes=RIGHT),
)


@st.composite
def artifacts_of(
    draw: st.DrawFn, writer: CacheWriter, keys: tuple[Key, ...], number: int, purpose: Purpose
) -> Artifact:
    config = {key.name: draw(one_of_key(key)) for key in keys if draw(st.integers(0, 19)) < 19}
    if draw(st.integers(0, 19)) == 19:
        config["undeclared"] = 1
    launched = draw(st.sampled_from(purpose.launched))
    made = artifact(
        writer.keep(b"not code", "raw"),
        config,
        draw(st.sampled_from(purpose.targets)),
        host=draw(HOSTS) if launched is None else None,
        rank=draw(st.integers(0, 2)),
        evidence=tuple(draw(CHECKS) for _ in range(draw(st.sampled_from(purpose.checked)))),
    )
    if launched is not None:
        made = replace(made, kind="cubin", symbol="first", signature=SIGNATURE, **launched)
    if draw(st.sampled_from(purpose.writes)):
        made = replace(made, signature=made.signature.writing([OUTPUT]))
    facts, other = draw(FACTS), draw(FACTS)
    speed = {name: value for name, value in other.items() if name not in facts}
    assumes = Assumptions(needs=facts, speed=speed) if facts or speed else None
    return replace(made, key=f"{number:012x}{0:052x}", assumes=assumes)


TOOLCHAINS = st.fixed_dictionaries(
    {"apache-tvm-ffi": st.sampled_from((*["0.1.15"] * 9, "0.1.2", "0.2.0", "0.1x"))},
    optional={
        name: st.sampled_from(("12.9.79", "12.9", "12", "11", "13.0", "13"))
        for name in ("cuda", f"cuda[{HOST.arch}]", "cudart")
    },
)
TILINGS = st.builds(
    Tiling, tile=st.fixed_dictionaries({"m": st.sampled_from((64, 128))}), at_once=st.sampled_from((66, 132))
)


@st.composite
def measurements(draw: st.DrawFn, keys: list[str]) -> tuple[Measured, ...]:
    """Some problems, each measured once for a GPU, with times of some artifacts."""
    places = st.tuples(
        st.sampled_from(("Fake Hopper", "Fake Hopper", "Another")), st.integers(1, 4000), st.sampled_from((64, 4096))
    )
    rows = []
    for gpu, m, n in draw(st.lists(places, min_size=1, max_size=6, unique=True)):
        times = draw(st.dictionaries(st.sampled_from(keys), st.floats(1, 1000), min_size=1))
        tilings = draw(st.dictionaries(st.sampled_from(sorted(times)), TILINGS))
        rows.append(
            Measured(gpu=gpu, capability=Capability(9, 0), problem={"m": m, "n": n}, times=times, tilings=tilings)
        )
    return tuple(rows)


@st.composite
def caches(draw: st.DrawFn, folder: Path, purpose: Purpose) -> tuple[list[Path], tuple[Key, ...]]:
    """One or two caches with the op ``scale``, and its keys."""
    for old in folder.rglob("*.json"):
        old.unlink()
    keys, made = draw(keys_of_an_op(purpose.keys)), []
    for place in range(draw(st.integers(1, 2))):
        writer = CacheWriter(name=f"cache-{place}", toolchain=draw(TOOLCHAINS))
        if draw(st.integers(0, 9)) < 9:
            writer.runtime(f"libprecast-rt-{place:016x}.so", b"not code", draw(HOSTS))
        count = draw(st.integers(1, 5))
        listed = tuple(draw(artifacts_of(writer, keys, 10 * place + number, purpose)) for number in range(count))
        tuning = draw(measurements([one.key for one in listed]))
        writer.ops["scale"] = OpIndex.of(op="scale", keys=keys, doc="", artifacts=listed, tuning=tuning)
        made.append(writer.write(folder / str(place)))
    return made, keys


ANY_VALUE = st.sampled_from([value for kind in VALUES.values() for value in kind])


@st.composite
def configs(draw: st.DrawFn, keys: tuple[Key, ...], purpose: Purpose) -> dict[str, Any]:
    """Mostly what the op takes. The names are sorted, so that the first error is the same: JSON has no order."""
    config: dict[str, Any] = {}
    for key in keys:
        wish = draw(st.sampled_from(purpose.wishes))
        if wish < (14 if key.tuned or key.has_default else 17):
            config[key.name] = draw(one_of_key(key))
        elif wish == 18:
            config[key.name] = draw(ANY_VALUE)
        elif wish == 19:
            config[key.name] = draw(st.sampled_from(VALUES[key.type]))
    if draw(st.sampled_from(purpose.wishes)) == 19:
        config["strange"] = 1
    return dict(sorted(config.items()))


def one_of_key(key: Key) -> st.SearchStrategy[Any]:
    """A value that a key takes."""
    return st.sampled_from(tuple(map(to_json, key.choices)) or GOOD[key.type])


class Asked:
    """A driver that is the same stand-in for both readers, with a Hopper as the first of its devices."""

    def __init__(self, native: Native, reader: LibprecastReader) -> None:
        self.driver, self.reader = native.driver(), reader
        self.machines = Machines(driver=CurrentDriver(str(self.driver)))

    def python(self, paths: list[Path], config: Mapping[str, Any], **asked: Any) -> Resolution:
        session = Session(":".join(map(str, paths)), machines=self.machines)
        return session.explain(Request(op="scale", config=config, **asked))

    def libprecast(self, paths: list[Path], config: Mapping[str, Any], **asked: Any) -> list[tuple[str, str, str]]:
        asked = {"target": None, **asked}
        search = ":".join(map(str, paths))
        text = self.reader.ask(search, "scale", config, command="explain", cuda=self.driver, **asked).value()
        return [row.groups("") for row in map(ROW.fullmatch, text.split("\n")) if row]  # type: ignore[misc]


@pytest.fixture
def asked(native: Native, program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv("FAKE_SMS", "132")
    reader = LibprecastReader(program)
    yield Asked(native, reader)
    reader.close()


REQUESTS = st.fixed_dictionaries(
    {"problem": st.fixed_dictionaries({"m": st.integers(0, 5000), "n": st.sampled_from((64, 4096, 100))}) | st.none()},
    optional={
        "target": st.sampled_from(("sm_90a", "sm_90a", *TARGETS)),
        "verified": st.sampled_from((False, True, "emulated")),
    },
)
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@pytest.mark.parametrize("purpose", PURPOSES, ids=lambda purpose: str(purpose.outcome))
def test_the_same_decision(asked: Asked, tmp_path: Path, purpose: Purpose) -> None:
    seen: Counter[str] = Counter()

    @SETTINGS
    @given(data=st.data())
    def compare(data: st.DataObject) -> None:
        paths, keys = data.draw(caches(tmp_path, purpose))
        config, request = data.draw(configs(keys, purpose)), data.draw(REQUESTS)
        try:
            resolution = asked.python(paths, config, **request)
        except loader.ConfigError as error:
            seen["wrong"] += 1
            with pytest.raises(loader.ConfigError) as other:
                asked.libprecast(paths, config, **request)
            assert beginning(other.value) == beginning(error)
            return
        rows = asked.libprecast(paths, config, **request)
        accepted = [key for verdict, key, _ in rows if verdict != "refused"]
        assert accepted == [one.candidate.artifact.key[:12] for one in resolution.accepted]
        reasons = {key: why for verdict, key, why in rows if verdict == "refused"}
        expected = {r.candidate.artifact.key[:12]: "; ".join(r.reasons) for r in resolution.rejected}
        assert {k: parts(why) for k, why in reasons.items()} == {k: parts(why) for k, why in expected.items()}
        seen.update(["served"] * bool(accepted) + ["measured"] * bool(resolution.measured))
        seen.update(["one more output"] * any(one.outputs for one in resolution.accepted))
        seen.update(f"taken: {one.candidate.artifact.kind}" for one in resolution.accepted[:1])
        seen.update({re.sub(r"[^a-z ]", "", reason)[:9] for r in resolution.rejected for reason in r.reasons})

    compare()
    print(purpose.outcome, seen[purpose.outcome])
    assert seen[purpose.outcome] >= purpose.least, seen
    assert purpose.wishes != range(20) or len(seen) > 12, f"few reasons occurred: {seen}"


@pytest.mark.parametrize("tiled", [True, False])
def test_the_same_estimate(asked: Asked, tmp_path: Path, tiled: bool) -> None:
    """Between many measurements, of which some variants lack some."""
    chance = random.Random(7)
    writer = CacheWriter()
    writer.runtime("libprecast-rt-0000000000000001.so", b"not code")
    blob = writer.keep(b"not code", "raw")
    made = [replace(artifact(blob, {"tile": n}, "sm_90a"), key=f"{n:012x}{0:052x}") for n in range(12)]
    cut = {one.key: {"m": 2 ** chance.randrange(4, 9), "n": 2 ** chance.randrange(5, 9)} for one in made}
    tilings = {key: Tiling(tile=tile, at_once=chance.choice((66, 132, 264))) for key, tile in cut.items()}

    def problem() -> dict[str, int]:
        return {axis: int(2 ** chance.uniform(4, 13)) for axis in "kmn"}

    table = []
    for sizes in (problem() for _ in range(60)):
        times = {
            key: sizes["k"] / 100 * tiling.work(sizes) * chance.uniform(0.9, 1.1) * tiling.tile["m"] ** 0.5
            for key, tiling in tilings.items()
            if chance.random() < 0.7
        }
        known = {key: tiling for key, tiling in tilings.items() if key in times and tiled}
        table.append(
            Measured(gpu="Fake Hopper", capability=Capability(9, 0), problem=sizes, times=times, tilings=known)
        )
    keys = (Key(name="tile", type="int", tuned=True, has_default=True, default=0),)
    writer.ops["scale"] = OpIndex.of(op="scale", keys=keys, doc="", artifacts=tuple(made), tuning=tuple(table))
    root = writer.write(tmp_path / "cache")
    taken: Counter[str] = Counter()
    for sizes in (problem() for _ in range(100)):
        expected = [one.candidate.artifact.key[:12] for one in asked.python([root], {}, problem=sizes).accepted]
        rows = asked.libprecast([root], {}, problem=sizes)
        assert [key for verdict, key, _ in rows if verdict != "refused"] == expected, sizes
        taken[expected[0]] += 1
    assert len(taken) > 3, taken


def test_the_same_targets_run(asked: Asked, tmp_path: Path) -> None:
    """Also on the GPUs of Jetson boards, 8.7 and 11.0, which run only what is built for exactly them."""
    targets = (
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_89",
        "sm_90",
        "sm_90a",
        "sm_100f",
        "sm_103a",
        "sm_110",
        "sm_110a",
        "sm_111",
    )
    writer = CacheWriter()
    writer.runtime("libprecast-rt-0000000000000001.so", b"not code")
    blob = writer.keep(b"not code", "raw")
    writer.op("scale", [artifact(blob, {}, target) for target in targets], keys=())
    root = writer.write(tmp_path / "cache")
    for target in targets:
        accepted = [one.candidate.artifact.key[:12] for one in asked.python([root], {}, target=target).accepted]
        rows = asked.libprecast([root], {}, target=target)
        assert accepted and [key for verdict, key, _ in rows if verdict != "refused"] == accepted, target


@pytest.mark.parametrize(
    ("entry", "version", "made"),
    [
        ("cuda", "13.4", "13.4"),
        (f"cuda[{HOST.arch}]", "13.4", "13.4"),
        ("cuda", "13", "13.0"),
        ("cuda", "12", ""),
        ("cuda", "12.10", ""),
        ("cudart", "13.4", ""),
        ("nvidia-cuda-runtime", "13.4.92", ""),
    ],
)
def test_a_driver_for_cuda_12(asked: Asked, tmp_path: Path, entry: str, version: str, made: str) -> None:
    """The stand-in is a driver for CUDA 12.9: both refuse what was made with CUDA 13, and nothing else."""
    writer = CacheWriter(toolchain={"apache-tvm-ffi": "0.1.15", entry: version})
    writer.runtime("libprecast-rt-0000000000000001.so", b"not code")
    writer.op("scale", [artifact(writer.keep(b"not code", "raw"), {}, "sm_90a")], keys=())
    root = writer.write(tmp_path / "cache")
    expected = [f"made with CUDA {made}, this driver is for CUDA 12.9"] if made else []
    assert [reason for one in asked.python([root], {}).rejected for reason in one.reasons] == expected
    ((verdict, _, why),) = asked.libprecast([root], {})
    assert (verdict, [why] if why else []) == ("refused" if made else "taken", expected)


def parts(reasons: str) -> list[str]:
    """Reasons without what names the reader."""
    return sorted(re.sub(r", \S+ is installed$", ", another is installed", one) for one in reasons.split("; "))


def beginning(error: Exception) -> str:
    """An error up to the value that it quotes, which each language writes its own way, and to the nearest word."""
    return re.split("[;:]", str(error))[0]

"""Resolution without hardware: a pure function of the index and of a description of the machine."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.loader.contract.format.artifact import Artifact, Host
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Capability, Target
from precast.loader.errors import ConfigError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Candidate, Request, same
from precast.loader.resolve.choose import choose
from precast.loader.resolve.judge import resolve, resolve_every
from precast.loader.resolve.resolution import Resolution, render
from tests.helpers.caches import HOST, SCALE_KEYS, artifact, reader_of
from tests.helpers.resolutions import BLOB, HERE, scale, source

BARE_KEYS = tuple(replace(key, has_default=False) for key in SCALE_KEYS)
TARGETS = ("sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a", "sm_120f")
CAPABILITIES = tuple(Capability(*pair) for pair in ((8, 0), (8, 6), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)))


def ask(*sources: CachedOp, machine: Machine = HERE, full: bool = True, **config: object) -> Resolution:
    return resolve(Request(op="scale", config=config), machine, sources, full=full)


def reason(resolution: Resolution) -> str:
    assert resolution.chosen is None
    (rejected,) = resolution.rejected
    return "; ".join(rejected.reasons)


@pytest.mark.parametrize(
    ("target", "runs"),
    [
        ("sm_80", "8.0 8.6"), ("sm_86", "8.6"), ("sm_90", "9.0"), ("sm_90a", "9.0"), ("sm_100", "10.0 10.3"),
        ("sm_100a", "10.0"), ("sm_100f", "10.0 10.3"), ("sm_103", "10.3"), ("sm_103a", "10.3"),
        ("sm_120f", "12.0 12.1"),
    ],
)  # fmt: skip
def test_where_a_target_runs(target: str, runs: str) -> None:
    good = {
        str(c)
        for c in CAPABILITIES
        if ask(source(scale(target)), machine=replace(HERE, capability=c), dtype="bf16").chosen
    }
    assert good == set(runs.split())


@pytest.mark.parametrize(
    ("capability", "order"),
    [
        (Capability(9, 0), ["sm_90a", "sm_90"]),
        (Capability(10, 0), ["sm_100a", "sm_100f", "sm_100"]),
        (Capability(10, 3), ["sm_103a", "sm_100f", "sm_103", "sm_100"]),
        (Capability(8, 6), ["sm_86", "sm_80"]),
    ],
)
def test_exact_then_family_then_plain(capability: Capability, order: list[str]) -> None:
    found = ask(source(*map(scale, TARGETS)), machine=replace(HERE, capability=capability), dtype="bf16")
    assert [str(a.candidate.artifact.target) for a in found.accepted] == order


def test_meaning_keys_must_match_and_tuned_keys_are_chosen() -> None:
    one = source(scale(threads=256, rank=1), scale(threads=128, rank=2), scale(threads=512, rank=0, layout="column"))
    assert ask(one, dtype="bf16").accepted[0].candidate.artifact.config["threads"] == 256
    assert ask(one, dtype="bf16", threads=128).accepted[0].candidate.artifact.config["threads"] == 128
    assert ask(one, dtype="bf16", layout="column").accepted[0].candidate.artifact.config["threads"] == 512
    missing = ask(one, dtype="bf16", threads=64)
    assert missing.chosen is None
    assert missing.rejected[0].reasons == ("threads is 128, not 64",)
    assert missing.rejected[-1].reasons == ("layout is 'column', not 'row'; threads is 512, not 64",)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "needs the config key 'dtype'"),
        ({"dtyp": "bf16"}, "did you mean 'dtype'"),
        ({"dtype": "bf17"}, "not a dtype; did you mean"),
        ({"dtype": "bf16", "threads": 128.0}, "expected int"),
        ({"dtype": "bf16", "threads": True}, "expected int"),
    ],
)
def test_a_config_that_the_op_does_not_take(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ask(source(scale()), **config)


def test_each_cache_is_asked_by_its_own_keys() -> None:
    old = source(artifact(BLOB, {"dtype": "bfloat16"}, "sm_90a"), keys=(Key(name="dtype", type="dtype"),), precedence=0)
    new = source(scale(), precedence=1)
    assert ask(old, new, dtype="bf16").chosen == Candidate(old, old.op.artifact(0))
    found = ask(old, new, dtype="bf16", layout="row")
    assert found.chosen == Candidate(new, new.op.artifact(0))
    assert "cache 'c0' was left out: op 'scale' has no config key 'layout'" in str(found)
    with pytest.raises(ConfigError, match="'lay'"):
        ask(old, new, dtype="bf16", lay="row")


def test_a_key_the_op_does_not_declare() -> None:
    odd = artifact(BLOB, {"dtype": "bfloat16", "layout": "row", "threads": 1, "secret": 3}, "sm_90a")
    assert "does not declare: secret" in reason(ask(source(odd), dtype="bf16"))
    bare = artifact(BLOB, {"dtype": "bfloat16"}, "sm_90a")
    assert reason(ask(source(bare), dtype="bf16")) == "its config has no layout"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (replace(HERE, arch="riscv64"), "hosts, this one is riscv64"),
        (replace(HERE, glibc=(2, 16)), "needs glibc 2.17, this host has 2.16"),
        (replace(HERE, glibc=None), "needs glibc 2.17, this host has none"),
        (replace(HERE, driver=(11, 8)), "made with CUDA 12.9, this driver is for CUDA 11.8"),
        (replace(HERE, tvm_ffi=None), "needs apache-tvm-ffi, which is not installed"),
        (replace(HERE, tvm_ffi="0.2.0"), "made with apache-tvm-ffi 0.1.15, 0.2.0 is installed"),
        (replace(HERE, capability=Capability(9, 1)), "built for sm_90a, this GPU is 9.1"),
        (replace(HERE, capability=None, absent="x"), "there is no CUDA device"),
    ],
)
def test_each_fact_of_the_machine_counts(machine: Machine, words: str) -> None:
    assert ask(source(scale()), dtype="bf16").chosen
    assert words in reason(ask(source(scale()), machine=machine, dtype="bf16"))
    assert ask(source(scale()), machine=machine, full=False, dtype="bf16").chosen is None


@pytest.mark.parametrize("entry", [("cuda", "13.4"), (f"cuda[{HOST.arch}]", "13.4")])
def test_a_cache_for_cuda_13_needs_a_driver_for_it(entry: tuple[str, str]) -> None:
    """Of any minor version."""
    thirteen = {"apache-tvm-ffi": "0.1.15", entry[0]: entry[1]}
    assert ask(source(scale(), toolchain=thirteen), machine=replace(HERE, driver=(13, 0)), dtype="bf16").chosen
    refused = ask(source(scale(), toolchain=thirteen), machine=replace(HERE, driver=(12, 9)), dtype="bf16")
    assert reason(refused) == "made with CUDA 13.4, this driver is for CUDA 12.9"


def test_a_major_version_of_cuda_is_enough() -> None:
    """A cache of a compiler whose toolkit is not known; and no other entry is its CUDA."""
    bare = {"apache-tvm-ffi": "0.1.15", "cuda": "12", "cuda-python": "14.0", "nvidia-cuda-runtime": "14.0"}
    assert ask(source(scale(), toolchain=bare), machine=replace(HERE, driver=(12, 0)), dtype="bf16").chosen
    refused = ask(source(scale(), toolchain=bare), machine=replace(HERE, driver=(11, 8)), dtype="bf16")
    assert reason(refused) == "made with CUDA 12.0, this driver is for CUDA 11.8"


def test_a_newer_glibc_of_the_runtime_counts() -> None:
    newer = source(scale(), hosts=(Host(arch=HOST.arch, glibc="2.40"),))
    assert "needs glibc 2.40" in reason(ask(newer, dtype="bf16"))
    assert "no runtime library" in reason(ask(source(scale(), hosts=()), dtype="bf16"))
    other = Host(arch="riscv64", glibc="2.17")
    assert "no runtime library" in reason(ask(source(scale(), hosts=(other,)), dtype="bf16"))
    assert "cubin" in reason(ask(source(scale(kind="cubin", host=None)), dtype="bf16"))


def test_a_target_stands_for_a_device() -> None:
    nowhere = replace(HERE, capability=None, driver=(1, 0), absent="no driver")
    found = ask(source(*map(scale, TARGETS)), machine=nowhere.supposing(Target.parse("sm_90a")), dtype="bf16")
    assert [str(a.candidate.artifact.target) for a in found.accepted] == ["sm_90a", "sm_90"]


def test_the_trace_is_the_whole_decision() -> None:
    found = ask(source(scale(threads=256), scale("sm_100a", threads=64), scale(dtype="float16")), dtype="bf16")
    head, *rows = str(found).splitlines()
    assert head.startswith("scale {dtype: bf16} on a device of 9.0, ") and "glibc 2.36" in head
    assert [row.split()[0] for row in rows] == ["taken", "refused", "refused"]
    assert rows[1].endswith("built for sm_100a, this GPU is 9.0")
    assert rows[2].endswith("dtype is 'float16', not 'bfloat16'")
    assert len({row.index("object") for row in rows}) == 1, "aligned"
    assert all(v.artifact.key[:12] in str(found) for v in (found.accepted[0].candidate, found.rejected[0].candidate))


def test_what_is_built_and_lacks_only_a_gpu_need_not_be_built() -> None:
    nowhere = replace(HERE, capability=None)
    text = str(ask(source(scale()), machine=nowhere, dtype="bf16"))
    assert text.endswith("it is built: run this where there is such a GPU, or give target='sm_90a' to resolve for it")
    assert "to build it" in str(ask(source(scale()), machine=nowhere, dtype="f32"))
    assert "to build it" in str(ask(source(scale()), machine=replace(nowhere, arch="aarch64"), dtype="bf16"))


def test_what_is_missing_says_how_to_build_it() -> None:
    import yaml

    found = ask(source(scale(), scale("sm_100a", dtype="float16")), dtype="f32", layout="no: 1")
    text = str(found)
    assert "nearest: {dtype: bfloat16, layout: row, threads: 128} for sm_90a" in text
    nearer = ask(source(scale(), scale(dtype="float32")), dtype="f32", layout="no: 1")
    assert "nearest: {dtype: float32, layout: row, threads: 128} for sm_90a\nto build it" in str(nearer)
    lines = text.split("install the cache:\n")[1]
    assert yaml.safe_load(lines) == {
        "kernels": [{"kernel": "scale", "config": {"dtype": "float32", "layout": "no: 1"}, "targets": ["sm_90a"]}]
    }


def test_choosing_parses_only_what_may_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Artifact] = []
    parse = Artifact.parse

    def count(row: object) -> Artifact:
        parsed.append(parse(row))
        return parsed[-1]

    monkeypatch.setattr(Artifact, "parse", count)
    one = source(*(scale(threads=n) for n in range(50)), scale(dtype="float16"), scale("sm_100a"))
    found = resolve(Request(op="scale", config={"dtype": "bf16", "threads": 7}), HERE, [one], full=False)
    assert found.chosen is not None and len(parsed) == 1
    many = source(*(scale(threads=n, rank=9 - n) for n in range(9)), scale("sm_90", rank=0))
    chosen = choose(Request(op="scale", config={"dtype": "bf16"}), HERE, [many])
    assert chosen is not None and chosen.artifact.rank == 1 and len(parsed) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"rank": "high"}, {"target": "sm_9"}, {"kind": None}, {"blob": {}}, {"rank": -1}, {"config": None},
        {"config": "row"},
    ],
)  # fmt: skip
def test_a_malformed_row_is_passed_over(damage: dict[str, object]) -> None:
    """Even where it would come first; the others are chosen among as if it were not there."""
    good = source(scale(threads=64, rank=1), scale(threads=128, rank=2))
    row = {**good.op.rows[0], "key": "0" * 64, "rank": 0, **damage}
    bad = replace(good, op=reader_of(good.op.index, artifacts=[row, *good.op.rows]))
    request = Request(op="scale", config={"dtype": "bf16"})
    chosen, found = choose(request, HERE, [bad]), resolve(request, HERE, [bad])
    assert chosen is not None and chosen.config["threads"] == 64 and chosen == found.chosen
    assert any("an artifact was left out" in note for note in found.notes)


def test_a_list_in_a_config_is_matched_item_by_item() -> None:
    keys = (Key(name="tile", type="list[int]"),)
    rows = [replace(scale(), key=f"{n:064x}", config={"tile": (64, n)}) for n in (32, 64)]
    one = source(*rows, keys=keys)
    chosen = choose(Request(op="scale", config={"tile": [64, 64]}), HERE, [one])
    assert chosen is not None and chosen.config == {"tile": (64, 64)}
    assert choose(Request(op="scale", config={"tile": [64]}), HERE, [one]) is None


def test_a_request_that_no_source_takes_is_refused() -> None:
    request = Request(op="scale", config={"dtype": "bf16", "colour": "red"})
    for sources in ([source(scale())], [source(scale()), source(scale(), precedence=1)]):
        with pytest.raises(ConfigError, match="colour"):
            choose(request, HERE, sources)
    with pytest.raises(ConfigError, match="needs the config key 'layout'"):
        choose(Request(op="scale", config={"dtype": "bf16"}), HERE, [source(scale(), keys=BARE_KEYS)])
    other = source(scale(), keys=BARE_KEYS, precedence=1)
    chosen = choose(Request(op="scale", config={"dtype": "bf16"}), HERE, [other, source(scale())])
    assert chosen is not None and chosen.source.precedence == 0, "the one that takes it serves it"


def test_a_decision_has_every_candidate() -> None:
    found = ask(source(*(scale(threads=n) for n in range(100)), scale(dtype="float16")), dtype="f32")
    assert str(found).count("refused") == 101


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda v: st.lists(v, max_size=3)))
def test_same_is_strict(value: object) -> None:
    def frozen(v: object) -> object:
        return tuple(map(frozen, v)) if isinstance(v, list) else v

    assert same(value, frozen(value)) and same(frozen(value), value)
    assert not same(value, [value]) and not same(1, True) and not same(1, 1.0)


artifacts = st.builds(
    scale,
    st.sampled_from(TARGETS),
    dtype=st.sampled_from(["bfloat16", "float16"]),
    threads=st.integers(0, 3),
    rank=st.integers(0, 2),
    layout=st.sampled_from(["row", "column"]),
    host=st.builds(Host, arch=st.sampled_from(["x86_64", "aarch64"]), glibc=st.sampled_from(["2.17", "2.34", "2.39"])),
)
listings = st.lists(artifacts, max_size=8, unique_by=lambda a: a.key)
machines = st.builds(
    Machine,
    arch=st.sampled_from(["x86_64", "aarch64"]),
    glibc=st.sampled_from([None, (2, 17), (2, 34), (2, 39)]),
    tvm_ffi=st.sampled_from([None, "0.1.15", "0.1.99", "0.2.0"]),
    driver=st.sampled_from([None, (11, 8), (12, 0), (13, 1)]),
    capability=st.sampled_from([None, *CAPABILITIES]),
)
BOTH = tuple(Host(arch=arch, glibc="2.17") for arch in ("x86_64", "aarch64"))


@settings(max_examples=150, deadline=None)
@given(first=listings, second=listings, machine=machines, pinned=st.none() | st.integers(0, 3), data=st.data())
def test_resolution(
    first: list[Artifact], second: list[Artifact], machine: Machine, pinned: int | None, data: st.DataObject
) -> None:
    """What is accepted runs there and was asked for; nothing that would do is refused; order decides nothing."""
    config = {"dtype": "bf16"} if pinned is None else {"dtype": "bf16", "threads": pinned}
    sources = [source(*rows, precedence=n, hosts=BOTH) for n, rows in enumerate((first, second))]
    found = ask(*sources, machine=machine, **config)
    assert len(found.accepted) + len(found.rejected) == len(first) + len(second)
    for candidate in (a.candidate for a in found.accepted):
        assert fits(candidate.artifact, machine, pinned)
    for candidate in (r.candidate for r in found.rejected):
        assert not fits(candidate.artifact, machine, pinned)
    ranks = [a.candidate.rank for a in found.accepted]
    assert len(set(ranks)) == len(ranks) and ranks == sorted(ranks)

    quick = ask(*sources, machine=machine, full=False, **config)
    assert quick.accepted == found.accepted
    assert choose(Request(op="scale", config=config), machine, sources) == found.chosen

    def shuffle(s: CachedOp) -> CachedOp:
        rows = tuple(data.draw(st.permutations(list(s.op.rows))))
        return replace(s, op=reader_of(s.op.index, artifacts=list(rows)))

    shuffled = [shuffle(s) for s in sources]
    again = ask(*data.draw(st.permutations(shuffled)), machine=machine, **config)
    assert [a.candidate.rank for a in again.accepted] == ranks
    assert [r.candidate.rank for r in again.rejected] == [r.candidate.rank for r in found.rejected]
    assert str(again) == str(found)


def fits(artifact: Artifact, machine: Machine, pinned: int | None) -> bool:
    """The rules once more, in other words."""
    target, device, host = artifact.target, machine.capability, artifact.host
    if device is None or host is None or machine.glibc is None or machine.tvm_ffi is None:
        return False
    runs = {
        "a": (device.major, device.minor) == (target.major, target.minor),
        "f": device.major == target.major and device.minor >= target.minor,
        "": device.major == target.major and device.minor >= target.minor,
    }[target.suffix]
    return (
        runs
        and artifact.config["dtype"] == "bfloat16"
        and artifact.config["layout"] == "row"
        and pinned in (None, artifact.config["threads"])
        and host.arch == machine.arch
        and int(host.glibc[2:]) <= machine.glibc[1]
        and machine.tvm_ffi.startswith("0.1.")
        and (machine.driver is None or machine.driver[0] >= 12)
    )


def test_the_first_rank_decides_before_the_second() -> None:
    """Every pair that differs in target and cache: the target decides."""
    for (one, other), (place, place2) in product([("sm_90a", "sm_90"), ("sm_90", "sm_90a")], [(0, 1), (1, 0)]):
        found = ask(source(scale(one), precedence=place), source(scale(other), precedence=place2), dtype="bf16")
        assert found.chosen is not None and str(found.chosen.artifact.target) == "sm_90a"


def test_a_prompt_shows_a_candidate_with_what_it_is_and_where() -> None:
    chosen = ask(source(scale()), dtype="bf16").chosen
    assert chosen is not None and chosen.signature == chosen.artifact.signature
    assert repr(chosen) == (
        "<Candidate scale {dtype: bfloat16, layout: row, threads: 128} for sm_90a, "
        f"object {chosen.artifact.key[:12]} in cache 'c0'>"
    )


def test_a_decision_is_shown_in_the_terms_of_a_cache_that_knows_the_config() -> None:
    """The first cache has no key for it; the manifest lines that would build it have the second one's values."""
    other = source(scale(), keys=(Key(name="size", type="int"),))
    asked = ask(other, source(scale(), precedence=1), dtype="half")
    assert asked.chosen is None
    assert repr(asked) == str(asked) == render(asked)
    assert "dtype: float16" in str(asked) and "half" not in str(asked).partition("config:")[2]


def test_a_decision_without_any_cache_is_shown_as_it_was_asked() -> None:
    assert "dtype: half" in str(resolve(Request(op="scale", config={"dtype": "half"}), HERE, []))


@given(st.randoms(use_true_random=False))
def test_lists_are_in_the_order_of_configs_whatever_the_keys(random: Random) -> None:
    """Keys are other ones with every version of a tool: what a person reads must not be shuffled by that."""
    digits = random.sample(range(1 << 40), 4)
    rows = [scale(threads=n, rank=0) for n in (16, 128, 1024)] + [scale(threads=8, rank=1)]
    rows = [replace(row, key=f"{digit:064x}") for row, digit in zip(rows, digits, strict=True)]
    random.shuffle(rows)
    one = source(*rows)
    assert [a.config["threads"] for a in one.op.artifacts] == [16, 128, 1024, 8]
    listed = resolve_every("scale", HERE, [one])
    assert [a.candidate.config["threads"] for a in listed.accepted] == [16, 128, 1024, 8]
    refused = ask(one, dtype="float16").rejected
    assert [r.candidate.config["threads"] for r in refused] == [16, 128, 1024, 8]

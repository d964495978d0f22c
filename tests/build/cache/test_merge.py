"""Caches that were built apart become one, or every contradiction between them is named."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.cache.merge import merge_caches
from precast.build.cache.pack import uncompressed
from precast.build.errors import MergeError, WheelError
from precast.build.link import elf
from precast.build.link.toolchain import by_host
from precast.build.wheel.wheel import write_wheels
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Capability
from precast.loader.errors import ConfigError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from tests.helpers.caches import SCALE_KEYS, artifact
from tests.helpers.packed_caches import AARCH64, ARM, RUNTIMES, TOOLS, X86, Built, code_of, damage, tree


def test_parts_merge_to_the_whole(tmp_path: Path) -> None:
    """Enough variants that a dictionary is trained, in three parts that overlap; in any order, and with itself."""
    dtypes = tuple(f"d{i}" for i in range(24))
    whole = Built(dtypes=dtypes).write(tmp_path / "whole")
    assert Cache(whole).index.dictionary is not None
    parts = [Built(dtypes=dtypes[a:b]).write(tmp_path / f"{a}") for a, b in ((0, 9), (7, 16), (16, 24))]
    for number, order in enumerate((parts, parts[::-1], [*parts, whole])):
        merge_caches(order, tmp_path / f"merged{number}")
        assert tree(tmp_path / f"merged{number}") == tree(whole)
    merge_caches(parts, parts[0])  # into one of them
    assert tree(parts[0]) == tree(whole)


FIRST: Artifact = artifact(
    uncompressed(code_of("bfloat16")), {"dtype": "bfloat16", "layout": "row", "threads": 128}, host=X86
)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Built(name="other"), "has the name 'demo' and"),
        (Built(content=lambda d: b"other bytes"), "for sm_90a (object, x86_64) differs in key, bytes"),
        (Built(change=lambda a: replace(a, key=a.key[::-1])), "differs in key"),
        (Built(change=lambda a: replace(a, rank=1)), "differs in rank"),
        (Built(change=lambda a: replace(a, evidence=({"verified": True},))), "differs in evidence"),
        (Built(keys=SCALE_KEYS[:2]), "op 'scale' has the config keys"),
        (Built(keys=(replace(SCALE_KEYS[0], choices=("float32",)), *SCALE_KEYS[1:])), "with other defaults, choices"),
        (Built(doc="Scales."), "has different descriptions"),
        (Built(tools={**TOOLS, "nvidia-cutlass-dsl": "4.9"}), "nvidia-cutlass-dsl is 4.8.1 in"),
        (Built(tools={**TOOLS, "gcc": "13.1"}), "13.1 in"),
        (Built(runtime=replace(RUNTIMES[X86], code=b"patched")), "the runtime library for x86_64 is"),
        (Built(host=ARM, tools={**TOOLS, "nvidia-cutlass-dsl": "4.9"}), "nvidia-cutlass-dsl is 4.8.1 in"),
        (Built(dtypes=("float32",), change=lambda a: replace(a, key=FIRST.key)), "the key KEY is that of"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)  # fmt: skip
def test_conflicts_are_named(tmp_path: Path, other: Built, said: str) -> None:
    one, two = Built().write(tmp_path / "one"), other.write(tmp_path / "two")
    with pytest.raises(MergeError) as caught:
        merge_caches([one, two], tmp_path / "merged")
    assert said.replace("KEY", FIRST.key[:16]) in str(caught.value)
    assert str(one) in str(caught.value) and str(two) in str(caught.value)
    assert not (tmp_path / "merged").exists()


def test_another_name_when_asked_for(tmp_path: Path) -> None:
    caches = [Built(name="a", dtypes=("float16",)).write(tmp_path / "a"), Built(name="b").write(tmp_path / "b")]
    assert merge_caches(caches, tmp_path / "c", name="both").name == "both"
    with pytest.raises(ConfigError):
        merge_caches(caches, tmp_path / "d", name="Not A Name")


def test_damage_is_found_before_anything_is_written(tmp_path: Path) -> None:
    one, two = Built().write(tmp_path / "one"), Built(dtypes=("float32",)).write(tmp_path / "two")
    damage(two, code_of("float32"))
    with pytest.raises(Exception, match="is damaged"):
        merge_caches([one, two], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


@pytest.fixture
def two_hosts(tmp_path: Path) -> Path:
    """x86-64 and aarch64, each with its own gcc; the aarch64 libraries are real ones."""
    x86 = Built().write(tmp_path / "x86")
    entry = (AARCH64 / "entry.so").read_bytes()
    assert elf.host_arch(entry) == "aarch64"
    arm = Built(host=ARM, tools={**TOOLS, "gcc": "13.3.0"}, content=lambda d: entry + d.encode())
    merge_caches([x86, arm.write(tmp_path / "arm")], tmp_path / "both")
    return tmp_path / "both"


def test_two_hosts_in_one_cache(two_hosts: Path, tmp_path: Path) -> None:
    index = Cache(two_hosts).index
    assert [r.host.arch for r in index.runtimes] == ["aarch64", "x86_64"]
    assert index.toolchain["gcc[aarch64]"] == "13.3.0" and index.toolchain["gcc[x86_64]"] == "12.2.0"
    assert by_host(index)["aarch64"] == {**TOOLS, "gcc": "13.3.0"}
    merge_caches([two_hosts, tmp_path / "x86"], tmp_path / "again")
    assert tree(tmp_path / "again") == tree(two_hosts)


@pytest.mark.parametrize(("arch", "other"), [("x86_64", "aarch64"), ("aarch64", "x86_64")])
def test_the_loader_takes_its_own_host_and_names_the_other(two_hosts: Path, arch: str, other: str) -> None:
    cache = Cache(two_hosts)
    machine = Machine(arch=arch, glibc=(2, 36), tvm_ffi="0.1.16", driver=(13, 0), capability=Capability(9, 0))
    source = CachedOp(cache="demo", precedence=0, index=cache.index, op=cache.op("scale"))
    found = resolve(Request(op="scale", config={"dtype": "bfloat16"}), machine, [source], full=True)
    assert found.chosen is not None
    chosen = found.chosen.artifact
    assert chosen.host is not None and chosen.host.arch == arch
    refused = {reason for rejected in found.rejected for reason in rejected.reasons}
    assert f"built for {other} hosts, this one is {arch}" in refused


def test_one_wheel_for_each_host(two_hosts: Path, tmp_path: Path) -> None:
    wheels = write_wheels(two_hosts, tmp_path / "dist")
    assert [w.name.partition("-py3-")[2] for w in wheels] == [
        "none-manylinux_2_17_aarch64.whl",
        "none-manylinux_2_28_x86_64.whl",
    ]
    assert len({w.name.partition("-py3-")[0] for w in wheels}) == 1, "one name and version, for pip to choose from"
    for wheel, host in zip(wheels, (ARM, X86), strict=True):
        folder = tmp_path / host.arch
        zipfile.ZipFile(wheel).extractall(folder)
        cache = Cache(folder / "precast_cache_demo")
        assert [r.host for r in cache.index.runtimes] == [host]
        artifacts = cache.op("scale").artifacts
        assert len(artifacts) == 2 and {a.host for a in artifacts} == {host}
        used = {a.blob.sha256 for a in artifacts} | {r.blob.sha256 for r in cache.index.runtimes}
        assert {p.name for p in (cache.path / "blobs").iterdir()} == used
        assert all(cache.read(a.blob) for a in artifacts)
    (alone,) = write_wheels(two_hosts, tmp_path / "alone", host="aarch64")
    assert alone.read_bytes() == wheels[0].read_bytes()
    with pytest.raises(WheelError, match="it is for aarch64, x86_64"):
        write_wheels(two_hosts, tmp_path / "none", host="riscv64")


def test_device_code_of_two_hosts_is_one(tmp_path: Path) -> None:
    """A cubin knows no host, but its key counts the one that built it: the same bytes are no conflict."""
    x86 = Built(kind="cubin").write(tmp_path / "x86")
    other = Built(kind="cubin", host=ARM, change=lambda a: replace(a, key="0" * 8 + a.key[8:]))
    arm = other.write(tmp_path / "arm")
    assert merge_caches([x86, arm], tmp_path / "one").ops["scale"].artifacts == 2
    merge_caches([arm, x86], tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    (wheel,) = write_wheels(tmp_path / "one", tmp_path / "dist")
    assert wheel.name.endswith("-py3-none-any.whl")

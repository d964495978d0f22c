"""What changed between two caches, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.build.cache.pack import uncompressed
from precast.loader.contract.format.artifact import Artifact, Resources
from precast.measure.comparison.diff import difference
from tests.helpers.caches import SCALE_KEYS
from tests.helpers.forks.forked_process import run
from tests.helpers.packed_caches import ARM, TOOLS, Built, code_of, damage

USED = Resources(kernel="k", registers=32, shared=1024, stack=0, local=0)


def used(registers: int = 32, local: int = 0, shared: int = 1024) -> Callable[[Artifact], Artifact]:
    resources = replace(USED, registers=registers, local=local, shared=shared)
    return lambda a: replace(a, resources=(resources,))


def changes(tmp_path: Path, one: Built, two: Built) -> list[str]:
    found = difference(CacheContents.open(one.write(tmp_path / "one")), CacheContents.open(two.write(tmp_path / "two")))
    said = [str(change) for change in found.cache]
    return said + [f"{name.op} {name.host}: {change}" for name, of in found.changed.items() for change in of]


def test_resources_and_bytes(tmp_path: Path) -> None:
    one = Built(dtypes=("float16",), change=used())
    two = Built(dtypes=("float16",), change=used(registers=40, local=16, shared=0), content=lambda d: bytes(100))
    said = changes(tmp_path, one, two)
    for line in ("registers 32 -> 40 (+8)", "spills 0 -> 16 (+16)", "shared memory 1024 -> 0 (-1024)"):
        assert f"scale x86_64: {line}" in said
    assert "scale x86_64: bytes 950 -> 100 (-850)" in said, said
    assert not [line for line in said if "stack" in line]


def test_a_fact_that_only_one_of_two_has(tmp_path: Path) -> None:
    """PTX that one build kept: a cache compared with an older one, and the other way round."""
    text = b"// the code"

    def kept(a: Artifact) -> Artifact:
        return replace(a, ptx=uncompressed(text))

    without, with_ptx = Built(dtypes=("float16",)), Built(dtypes=("float16",), change=kept, texts=(text,))
    digest = uncompressed(text).sha256[:12]
    assert f"scale x86_64: ptx none -> {digest}" in changes(tmp_path / "a", without, with_ptx)
    assert f"scale x86_64: ptx {digest} -> none" in changes(tmp_path / "b", with_ptx, without)


def test_what_is_said_of_a_whole_cache(tmp_path: Path) -> None:
    one = Built()
    two = Built(name="other", tools={**TOOLS, "gcc": "13.1", "new": "1"}, keys=SCALE_KEYS[:1], doc="text")
    said = changes(tmp_path, one, two)
    assert "name demo -> other" in said
    assert "gcc 12.2.0 -> 13.1" in said and "new none -> 1" in said
    assert any(line.startswith("config keys of scale") for line in said)
    assert "text of scale  -> text" in said


def diff(*words: object) -> subprocess.CompletedProcess[str]:
    return run(("diff", *words))


def test_the_command(tmp_path: Path) -> None:
    def other_key(a: Artifact) -> Artifact:
        return replace(a, key=a.key[::-1])

    one = Built(dtypes=("float16", "bfloat16")).write(tmp_path / "one")
    again = Built(dtypes=("float16", "bfloat16")).write(tmp_path / "again")
    same = diff(one, again)
    assert (same.returncode, same.stdout) == (0, "the same, byte for byte: 2 artifacts\n")
    two = Built(dtypes=("float16", "float32"), change=other_key).write(tmp_path / "two")
    said = diff(one, two)
    assert said.returncode == 1
    assert "- scale(dtype=bfloat16, " in said.stdout and "+ scale(dtype=float32, " in said.stdout
    assert said.stdout.endswith("1 added, 1 removed, 1 changed, 0 unchanged\n")
    data = json.loads(diff(one, two, "--json").stdout)
    assert data["same"] is False
    assert [a["config"]["dtype"] for a in data["added"]] == ["float32"]
    assert data["changed"][0]["changes"][0]["what"] == "key"
    arm = Built(host=ARM).write(tmp_path / "arm")
    assert "runtime library for aarch64 none -> libprecast-rt-" in diff(one, arm).stdout
    assert diff(one, tmp_path / "nothing").returncode == 1


def test_a_damaged_cache_is_no_byte_for_byte_equal(tmp_path: Path) -> None:
    one, two = Built().write(tmp_path / "one"), Built().write(tmp_path / "two")
    damaged = damage(two, code_of("float16"))
    for order in ((one, two), (two, one)):
        said = diff(*order)
        assert (said.returncode, said.stdout) == (1, ""), said.stdout
        assert f"{damaged} is damaged" in said.stderr and "Traceback" not in said.stderr

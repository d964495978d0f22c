"""The kit of tests/gpu: one command makes it, and what it lacks is skipped. No GPU is needed to check that."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import replace
from precast.loader.errors import CacheError, OpNotFound, VariantNotFound
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.not_found import refuse
from tests.gpu import kit
from tests.helpers.caches import HOST
from tests.helpers.gpu.lacks import lacking
from tests.helpers.resolutions import HERE, scale, source

HOPPER = Capability(9, 0)


def refused(op: CachedOp, **config: Any) -> VariantNotFound:
    with pytest.raises(VariantNotFound) as caught:
        refuse(resolve(Request(op="scale", config=config), HERE, [op]))
    return caught.value


def test_a_config_that_no_cache_has_is_a_lack() -> None:
    error = refused(source(scale(dtype="bfloat16")), dtype="float32", layout="row")
    assert lacking(error, HOPPER).startswith("no installed cache has scale {dtype: float32, layout: row}")


def test_an_op_for_another_gpu_alone_is_a_lack() -> None:
    assert lacking(refused(source(scale("sm_100a")), dtype="bfloat16", layout="row"), HOPPER)


def test_an_op_that_no_cache_has_is_a_lack() -> None:
    assert lacking(OpNotFound("no cache holds op 'gemm'\ncaches looked at: none"), HOPPER) == "no cache holds op 'gemm'"


def test_a_refusal_of_what_the_kit_has_is_none() -> None:
    """The loader, or the machine, is at fault: a test must report it."""
    newer = replace(scale(), host=replace(HOST, glibc="2.99"))
    error = refused(source(newer), dtype="bfloat16", layout="row")
    assert lacking(error, HOPPER) == "" and lacking(CacheError("broken"), HOPPER) == ""


def test_every_manifest_of_the_tests_is_in_the_kit() -> None:
    mine = {str(path.relative_to(kit.ROOT)) for path in (kit.ROOT / "tests" / "gpu").rglob("*.yaml")}
    assert mine <= set(kit.MANIFESTS)
    assert all((kit.ROOT / name).is_file() for name in kit.MANIFESTS)


@pytest.mark.parametrize("python", ["3.10", "3.12", "3.14"])
def test_all_that_it_needs_is_pinned(python: str) -> None:
    jax = kit.JAX if python != "3.10" else ()
    wanted = [kit.pinned(name, python) for name in (*kit.NEEDED, *kit.COMMAND, *jax)]
    assert all("==" in one and ";" not in one for one in wanted)


def test_a_manifest_that_does_not_build_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def precast(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        commands.append(list(map(str, words)))
        cache = Path(str(words[3]))
        if cache.name == "rows":
            return subprocess.CompletedProcess([], 2, "", "reading\nerror: rows.yaml:3:5: no module 'x' (PCB01)\n")
        cache.mkdir()
        (cache / "index.json").write_text("{}")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(kit, "precast", precast)
    names = ["manifests/default.yaml", "manifests/rows.yaml", "tests/gpu/assumptions.yaml"]
    caches, left_out = kit.built(names, ["sm_100a"], tmp_path)
    assert [cache.name for cache in caches] == ["default"] and commands[0][-2:] == ["--target", "sm_100a"]
    assert left_out == [
        "manifests/rows.yaml: all: error: rows.yaml:3:5: no module 'x' (PCB01)",
        "tests/gpu/assumptions.yaml: it is for none of sm_100a",
    ]


def test_run_without_a_kit_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", kit.ROOT / "tests" / "gpu" / "run", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "python tests/gpu/kit.py KIT" in done.stderr

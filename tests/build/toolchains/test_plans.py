"""Manifests of several toolchains: a plan and a cache each, what they must agree on, and what each is built with.

The wheels are tiny: the compiler in them is that of the tests' own environment, which a ``.pth`` file brings.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pytest

from precast.build.errors import ManifestError, OutputError
from precast.build.interpreter import HERE
from precast.build.link.toolchain import find_toolchain
from precast.build.link.versions import release_of, toolkit
from precast.build.toolchains.plans import cache_folders, groups_of_files
from precast.loader.errors import FormatError, TargetError
from tests.helpers.builds import HEAD
from tests.helpers.forks.forked_process import run
from tests.helpers.toolchains.tiny_wheels import make_wheel

KERNELS = HEAD + "\n\ndef acme_add():\n    return compile_add({value})\n"
DSL = "nvidia-cutlass-dsl"


def manifest(folder: Path, name: str, toolchain: str, **more: str) -> Path:
    path = folder / f"{more.get('file', name)}.yaml"
    kernels = "[{compile: 'acme_add:acme_add', op: acme.add}]"
    line = f"toolchain: {toolchain}\n" if toolchain else ""
    path.write_text(f"version: 1\nname: {name}\ntargets: {more.get('targets', 'sm_90a')}\n{line}kernels: {kernels}\n")
    return path


def test_manifests_of_one_toolchain_are_one_plan(tmp_path: Path) -> None:
    one = manifest(tmp_path, "one", '{requirements: [a, b], dsl: "4.8.1"}')
    same = manifest(tmp_path, "same", '{dsl: "4.8.1", cuda: 12, requirements: [b, a]}')
    other = manifest(tmp_path, "other", '{dsl: "4.8.1", cuda: 13, requirements: [b, a]}')
    none = manifest(tmp_path, "none", "")
    groups = groups_of_files([one, none, same, other])
    assert [group.name for group in groups] == ["one", "none", "other"]
    assert [len(group.manifests) for group in groups] == [2, 1, 1]
    assert cache_folders(groups, Path("out")) == (Path("out/one"), Path("out/none"), Path("out/other"))
    assert cache_folders(groups[:1], Path("out")) == (Path("out"),)


def test_caches_of_several_toolchains_need_names_of_their_own(tmp_path: Path) -> None:
    one = manifest(tmp_path, "same", '{dsl: "4.8.1"}', file="one")
    two = manifest(tmp_path, "same", '{dsl: "4.7.1"}', file="two")
    with pytest.raises(ManifestError, match=r"two\.yaml:4:12: .*have the same name 'same': change one 'name'"):
        groups_of_files([one, two])
    with pytest.raises(FormatError, match="--name is for one cache"):
        groups_of_files([one, two], name="mine")


def test_several_caches_are_not_written_into_one(tmp_path: Path) -> None:
    groups = groups_of_files([manifest(tmp_path, "one", '{dsl: "4.8.1"}'), manifest(tmp_path, "two", "")])
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(OutputError, match="is a cache, and these manifests make 2 caches"):
        cache_folders(groups, tmp_path)


def test_a_target_of_some_leaves_the_others_out(tmp_path: Path) -> None:
    one = manifest(tmp_path, "one", '{dsl: "4.8.1"}', targets="[sm_90a, sm_80]")
    two = manifest(tmp_path, "two", '{dsl: "4.7.1"}', targets="sm_100a")
    (group,) = groups_of_files([one, two], targets=["sm_80"])
    assert (group.name, [str(target) for target in group.targets]) == ("one", ["sm_80"])
    with pytest.raises(TargetError, match="no manifest builds for sm_120a"):
        groups_of_files([one, two], targets=["sm_120a"])


@pytest.fixture
def real_wheels(wheels: Path) -> Path:
    """Wheels with which kernels compile: what is linked is copied into them, the compiler itself is found by a path."""
    toolchain = find_toolchain()
    version = HERE.version_of(DSL)
    here = str(Path(str(importlib.metadata.distribution(DSL).locate_file(""))).resolve())
    ffi = {f"tvm_ffi/lib/{name}": (toolchain.ffi / name).read_bytes() for name in ("libtvm_ffi.so",)}
    headers = toolchain.ffi.parent / "include"
    ffi |= {f"tvm_ffi/include/{p.relative_to(headers)}": p.read_bytes() for p in headers.rglob("*.h")}
    path = f"import sys; sys.path.append({here!r})\n{Path(here, 'nvidia_cutlass_dsl_packages.pth').read_text()}"
    for old in wheels.glob("*tvm_ffi*"):
        old.unlink()
    make_wheel(wheels, DSL, version, {"zz_dsl.pth": path.encode()}, requires=[f"{DSL}-libs-cu12=={version}"])
    archive = {"dsl/lib/libcuda_dialect_runtime_static.a": toolchain.archive.read_bytes()}
    make_wheel(wheels, f"{DSL}-libs-cu12", version, archive)
    make_wheel(wheels, "apache-tvm-ffi", HERE.version_of("apache-tvm-ffi"), ffi)
    for value in (1, 2):
        make_wheel(wheels, "acme-add", f"{value}.0", {"acme_add.py": KERNELS.format(value=value).encode()})
    return wheels


@pytest.mark.slow
def test_each_is_built_with_what_it_asks_for(real_wheels: Path, tmp_path: Path) -> None:
    """One command makes a cache of each version of a library, which are not installed where it runs."""
    version = HERE.version_of(DSL)
    paths = [
        manifest(tmp_path, f"acme-{value}", f'{{dsl: "{version}", requirements: [acme-add=={value}.0]}}')
        for value in (1, 2)
    ]
    environment = {
        **os.environ,
        "PRECAST_TOOLCHAINS": str(tmp_path / "toolchains"),
        "PRECAST_STORE": str(tmp_path / "store"),
    }

    def precast(*words: object) -> str:
        done = run(words, environment)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    wheels = ("--find-links", real_wheels, "--offline")
    first = precast("build", *paths, "-o", tmp_path / "out", *wheels, "-j", 1)
    assert first.count("1 variant built, 0 reused") == 2
    made = [index(tmp_path / "out" / f"acme-{value}") for value in (1, 2)]
    assert [one["toolchain"]["lock/acme-add"] for one in made] == ["1.0", "2.0"]
    assert {one["toolchain"]["cuda"] for one in made} == {toolkit(12, release_of(version))}
    assert made[0]["toolchain"]["lock"] != made[1]["toolchain"]["lock"]
    assert made[0]["toolchain"][DSL] == version
    keys = [artifact(tmp_path / "out" / f"acme-{value}")["key"] for value in (1, 2)]
    blobs = [artifact(tmp_path / "out" / f"acme-{value}")["blob"]["sha256"] for value in (1, 2)]
    assert keys[0] != keys[1] and blobs[0] != blobs[1]

    planned = json.loads(precast("plan", *paths, "--json"))["plans"]
    assert [one["toolchain"]["locked"]["acme-add"] for one in planned] == ["1.0", "2.0"]
    again = precast("build", *paths, "-o", tmp_path / "out", "-j", 1)
    assert again.count("0 variants built, 1 reused") == 2
    assert precast("check", *paths, tmp_path / "out").count("1 of 1 artifact present") == 2
    assert "1 artifact built again, byte for byte" in precast("reproduce", paths[0], tmp_path / "out" / "acme-1")
    listed = precast("toolchains")
    assert listed.count(f"DSL {version}, CUDA 12") == 2 and "2 toolchains" in listed


def index(cache: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cache / "index.json").read_text())
    return found


def artifact(cache: Path) -> dict[str, Any]:
    (found,) = json.loads((cache / "ops" / "acme.add.json").read_text())["artifacts"]
    assert isinstance(found, dict)
    return found

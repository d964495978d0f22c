"""What a caller may ask for, and how an odd request is answered."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader import session
from precast.loader.api import Variants
from precast.loader.contract.format.target import Target
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from tests.helpers.caches import CacheWriter, Native, artifact, demo
from tests.helpers.echo import HOPPER
from tests.helpers.loader_fixtures import Use


@pytest.mark.parametrize("requests", ["scale", ["scale"]])
def test_an_ops_name_alone_preloads_every_variant_that_fits(path: Path, use: Use, requests: Any) -> None:
    """Every meaning config and every tuned choice, and nothing built for another target."""
    use(path)
    done = loader.preload(requests, target="sm_90a")
    assert len(done.loaded) == 6 and {str(one.kernel.target) for one in done.loaded} == {"sm_90a"}
    assert {(one.kernel.config["dtype"], one.kernel.config["threads"]) for one in done.loaded} == {
        (dtype, threads) for dtype in ("bfloat16", "float16", "float32") for threads in (128, 256)
    }
    loader.freeze()
    for one in done.loaded:
        assert loader.get("scale", one.kernel.config, target="sm_90a") is one.kernel


def test_of_one_config_the_artifact_is_preloaded_that_get_takes(native: Native, tmp_path: Path, use: Use) -> None:
    """A plain target beside the exact one, and a cubin for tools, are not loaded."""
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    config = {"dtype": "float32", "layout": "row", "threads": 1}
    rows = [artifact(writer.keep(native.entry()), config, target) for target in ("sm_90", "sm_90a")]
    tools = artifact(writer.keep(b"device code"), config, symbol="k", kind="cubin", host=None)
    writer.op("scale", [*rows, tools])
    use(writer.write(tmp_path / "cache"))
    (one,) = loader.preload("scale", target="sm_90a").loaded
    assert str(one.kernel.target) == "sm_90a" and one.kernel.artifact.kind == "object"


def test_preloading_an_op_of_which_nothing_fits_is_an_error(path: Path, use: Use) -> None:
    use(path)
    with pytest.raises(loader.VariantNotFound, match=r"(?s)built for sm_90a, sm_80 was requested.*targets: \[sm_80\]"):
        loader.preload("scale", target="sm_80")
    with pytest.raises(loader.OpNotFound, match="did you mean 'scale'"):
        loader.preload("skale", target="sm_90a")


@pytest.mark.parametrize("requests", [5, None, {"scale": {"dtype": "bf16"}}])
def test_what_is_no_list_of_requests_says_how_to_write_one(path: Path, use: Use, requests: Any) -> None:
    use(path)
    with pytest.raises(loader.ConfigError, match=r"write loader\.preload\(\['scale'\]\)"):
        loader.preload(requests, target="sm_90a")


@pytest.mark.parametrize("request_", [("scale",), 5, ["scale", {}], (5, {})])
def test_what_is_no_request_says_how_to_write_one(path: Path, use: Use, request_: Any) -> None:
    use(path)
    with pytest.raises(loader.ConfigError, match="give the name of an op, or a pair"):
        loader.preload([request_], target="sm_90a")


@pytest.mark.parametrize("config", ["bfloat16", 5, ["bfloat16"], ""])
def test_what_is_no_config_says_how_to_write_one(path: Path, use: Use, config: Any) -> None:
    use(path)
    for ask in (loader.get, loader.explain):
        with pytest.raises(loader.ConfigError, match=r"loader\.get\('scale', {'dtype': 'bfloat16'}\)"):
            ask("scale", config, target="sm_90a")
    with pytest.raises(loader.ConfigError, match=r"loader\.get\('scale', {'dtype': 'bfloat16'}\)"):
        loader.preload([("scale", config)], target="sm_90a")


@pytest.mark.parametrize("op", [5, None, ["scale"]])
def test_what_is_no_name_of_an_op_is_an_error(path: Path, use: Use, op: Any) -> None:
    use(path)
    for ask in (lambda: loader.get(op, target="sm_90a"), lambda: loader.variants(op)):
        with pytest.raises(loader.ConfigError, match=r"not the name of an op: loader\.ops\(\) lists them"):
            ask()


def test_a_prompt_shows_decisions_and_variants_as_text(path: Path, use: Use) -> None:
    use(path)
    decision = loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")
    assert repr(decision) == str(decision) and repr(decision).startswith("scale {dtype: bf16} for sm_90a")
    listed = loader.variants("scale")
    lines = repr(listed).splitlines()
    assert len(lines) == len(listed) == 12 and isinstance(listed, tuple)
    key = listed[0].artifact.key[:12]
    assert lines[0] == repr(listed[0]) and lines[0].startswith("<Candidate scale {dtype: ")
    assert lines[0].endswith(f"object {key} in cache 'demo'>")
    assert listed[0].signature == listed[0].artifact.signature
    cache = loader.caches()[0].cache
    assert repr(cache) == f"<Cache 'demo' at {str(path)!r}, 2 ops>"
    assert repr(Variants()) == "no variants"


def test_a_session_has_its_own_caches_and_can_be_the_default(native: Native, tmp_path: Path, use: Use) -> None:
    use(demo(native, name="one").write(tmp_path / "one"))
    other = session.Session(str(demo(native, name="two", factor=3).write(tmp_path / "two")), machines=Machines(HOPPER))
    assert loader.caches()[0].name == "one" and other.caches()[0].name == "two"
    before = session.use(other)
    try:
        assert loader.get("scale", {"dtype": "bf16"})(100) == 300
        assert loader.stats().loads == other.stats.loads == 1
        assert loader.explain("scale", {"dtype": "bf16"}).machine == HOPPER
    finally:
        assert session.use(before) is other


def test_a_described_host_is_asked_for_no_driver() -> None:
    nowhere = replace(HOPPER, capability=None, absent="described")
    assert Machines(HOPPER).on(3) == HOPPER and Machines(HOPPER).any_like(HOPPER)
    assert Machines(nowhere).on() == nowhere
    assert Machines(nowhere).for_target("sm_100a").target == Target.parse("sm_100a")
    machines = Machines()
    assert machines.for_target("sm_90a") is machines.for_target("sm_90a"), "described once"


@pytest.mark.usefixtures("plain_finders")
def test_a_first_get_lists_the_installed_distributions_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing them takes as long as all else of finding a cache."""
    listed: list[object] = []
    original = os.listdir

    def counting(folder: Any = ".") -> list[Any]:
        listed.append(folder)
        return original(folder)

    monkeypatch.setattr(os, "listdir", counting)
    session.Session(str(path)).get(Request(op="scale", config={"dtype": "float32"}, target="sm_90a"))
    folders = [folder for folder in dict.fromkeys(sys.path) if folder and folder in listed]
    assert folders and max(map(listed.count, folders)) == 1

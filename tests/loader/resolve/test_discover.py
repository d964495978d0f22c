"""Which caches are found, in which order, and what a broken one does to the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast import loader
from precast.loader.fast_start.installed import locate
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.machine import Machines
from precast.loader.resolve.discover import discover
from precast.loader.watch import notice as notices
from tests.helpers.caches import CacheWriter, Native, artifact, demo
from tests.helpers.echo import HOPPER
from tests.helpers.loader_fixtures import Use


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that wheels were installed into."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    for name in ("PRECAST_CACHE_PATH", "PRECAST_CACHES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(notices, "_reported", set())
    yield folder


def install(site: Path, writer: CacheWriter, module: str) -> None:
    """Lay a cache out as its wheel does, in a package that must not be imported."""
    package = site / module
    writer.write(package)
    (package / "__init__.py").write_text("raise SystemExit('a cache was imported')")
    facts = site / f"{module}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[precast.caches]\n{writer.name} = {module}\n")


def test_wheels_by_name_after_the_path(native: Native, tmp_path: Path, site: Path, use: Use) -> None:
    install(site, demo(native, name="zebra"), "precast_cache_a")
    install(site, demo(native, name="ant"), "precast_cache_z")
    use(demo(native, name="mine").write(tmp_path / "mine"))
    assert [found.name for found in loader.caches()] == ["mine", "ant", "zebra"]
    assert not {"precast_cache_a", "precast_cache_z"} & set(sys.modules)
    assert loader.get("twice", target="sm_90a").artifact


def test_a_package_below_another_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer_of_caches" / "inner").mkdir(parents=True)
    (tmp_path / "outer_of_caches" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "outer_of_caches" / "inner" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "outer_of_caches" / "bare").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert locate("outer_of_caches.inner") == tmp_path / "outer_of_caches" / "inner"
    assert locate("outer_of_caches.missing") is None and locate("outer_of_caches.bare") is None
    assert locate("no_such_package") is None and locate("abc.x") is None
    assert "outer_of_caches" not in sys.modules


@pytest.fixture
def two(native: Native, site: Path, use: Use) -> Iterator[Use]:
    """Two wheels with other kernels for the same requests. The name of one comes first, and nobody chose that."""
    install(site, demo(native, name="zebra", factor=2), "precast_cache_zebra")
    install(site, demo(native, name="ant", factor=3), "precast_cache_ant")
    use(machines=Machines(HOPPER))
    yield use


def scaled(**more: object) -> object:
    """By what the kernel that is taken multiplies."""
    return loader.get("scale", {"dtype": "bf16"}, **more)(1)  # type: ignore[arg-type]


def test_two_wheels_that_serve_one_request_are_named_once(two: Use, capfd: pytest.CaptureFixture[str]) -> None:
    assert scaled() == 3 and scaled(target="sm_90a") == 3
    loader.get("scale", {"dtype": "f32"}, target="sm_90a")
    warned = "the caches 'ant' and 'zebra', with different kernels; that of 'ant' is used, as no order was given"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("precast: warning: op 'scale' {dtype: bf16} is in") and warned in line
    assert "PRECAST_CACHES=zebra,ant" in line
    decision = loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")
    assert warned in str(decision) and any(warned in note for note in decision.notes)
    assert warned in str(loader.explain("scale", {"dtype": "bf16"}, problem={"n": 8}))
    loader.preload("twice", target="sm_90a")
    assert "op 'twice' {} is in the caches 'ant' and 'zebra'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("order", "factor", "names"),
    [("zebra,ant", 2, "zebra ant"), ("ant", 3, "ant zebra"), (" zebra ", 2, "zebra ant")],
)
@pytest.mark.parametrize("by", ["variable", "api"])
def test_an_order_decides(
    order: str, factor: int, names: str, by: str, two: Use,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if by == "variable":
        monkeypatch.setenv("PRECAST_CACHES", order)
    else:
        assert scaled() == 3, "of the first by name, until there is an order"
        loader.caches(order=order.replace(" ", "").split(","))
        capfd.readouterr()
    assert [found.name for found in loader.caches()] == names.split()
    assert scaled() == factor and scaled(target="sm_90a") == factor
    assert "no order" not in str(loader.explain("scale", {"dtype": "bf16"}, target="sm_90a"))
    assert capfd.readouterr().err == ""


def test_a_name_in_the_order_that_no_cache_has_is_reported(
    two: Use, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRECAST_CACHES", "zebra,aunt")
    assert scaled() == 2
    assert "names 'aunt', and there is zebra, ant: correct or remove it" in capfd.readouterr().err


def test_once_frozen_two_wheels_for_one_request_are_an_error(two: Use) -> None:
    loader.freeze()
    with pytest.raises(loader.Frozen, match="'ant' and 'zebra', with different kernels"):
        scaled()
    loader.freeze(False)
    assert scaled() == 3
    with pytest.raises(loader.Frozen, match="'ant' and 'zebra', with different kernels"):
        loader.freeze()
    loader.caches(order=["ant"])
    assert scaled() == 3
    loader.freeze()
    assert scaled() == 3


def test_wheels_that_do_not_contradict_each_other_need_no_order(
    native: Native, tmp_path: Path, site: Path, use: Use, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same bytes, other configs, and a folder of ``PRECAST_CACHE_PATH`` before a wheel."""
    install(site, demo(native, name="ant"), "precast_cache_ant")
    install(site, demo(native, name="zebra"), "precast_cache_zebra")
    other = CacheWriter(name="other")
    other.runtime(*native.runtime())
    config = {"dtype": "int8", "layout": "row", "threads": 1}
    other.op("scale", [artifact(other.keep(native.entry()), config, "sm_90a")])
    install(site, other, "precast_cache_other")
    use(machines=Machines(HOPPER))
    assert scaled() == 2 and loader.get("scale", {"dtype": "int8"}, target="sm_90a").artifact
    use(demo(native, name="mine", factor=3).write(tmp_path / "mine"), machines=Machines(HOPPER))
    assert scaled() == 3
    assert capfd.readouterr().err == ""


def test_an_entry_point_to_nowhere(site: Path, native: Native) -> None:
    install(site, demo(native, name="gone"), "precast_cache_gone")
    for file in sorted((site / "precast_cache_gone").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (site / "precast_cache_gone").rmdir()
    (found,) = (f for f in discover() if f.name == "gone")
    assert found.error is not None and "reinstall its wheel" in str(found.error) and found.index is None


def test_a_broken_cache_does_not_hide_a_good_one(native: Native, tmp_path: Path, use: Use) -> None:
    broken = demo(native, name="broken").write(tmp_path / "broken")
    (broken / "index.json").write_text("{")
    use(broken, tmp_path / "missing", demo(native).write(tmp_path / "good"))
    assert [found.error is None for found in loader.caches()] == [False, False, True]
    assert loader.get("scale", {"dtype": "bf16"}, target="sm_90a").op == "scale"
    text = str(loader.explain("scale", {"dtype": "bf16"}, target="sm_90a"))
    assert "a cache was left out" in text and "broken/index.json: not JSON" in text
    with pytest.raises(loader.OpNotFound, match=r"did you mean 'scale'\?[\s\S]*broken.*not JSON[\s\S]*good|Install"):
        loader.get("skale")


def test_a_damaged_op_falls_to_the_next_cache(native: Native, tmp_path: Path, use: Use) -> None:
    damaged, good = (demo(native, name=n).write(tmp_path / n) for n in ("damaged", "good"))
    (damaged / "ops" / "scale.json").write_text("{}")
    use(damaged, good)
    decision = loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")
    assert decision.chosen is not None and decision.chosen.source.cache == "good"
    assert "damaged" in str(decision)
    use(damaged)
    with pytest.raises(loader.IntegrityError, match=r"scale\.json"):
        loader.get("scale", {"dtype": "bf16"}, target="sm_90a")


def test_the_first_cache_wins(native: Native, tmp_path: Path, use: Use) -> None:
    one, two = (demo(native, name=n, factor=f).write(tmp_path / n) for n, f in (("one", 2), ("two", 3)))
    for order, factor in (((one, two), 2), ((two, one), 3)):
        use(*order, machines=Machines(HOPPER))
        kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
        assert kernel(100) == 100 * factor
    use(one, one)
    assert len([f for f in loader.caches() if f.name == "one"]) == 1


def test_an_exact_target_wins_over_an_earlier_cache(native: Native, tmp_path: Path, use: Use) -> None:
    plain = CacheWriter(name="plain")
    plain.runtime(*native.runtime())
    config = {"dtype": "bfloat16", "layout": "row", "threads": 1}
    plain.op("scale", [artifact(plain.keep(native.entry()), config, "sm_90")])
    use(plain.write(tmp_path / "plain"), demo(native).write(tmp_path / "demo"))
    assert str(loader.get("scale", {"dtype": "bf16"}, target="sm_90a").target) == "sm_90a"
    assert str(loader.get("scale", {"dtype": "bf16", "threads": 1}, target="sm_90a").target) == "sm_90"


def test_what_there_is(path: Path, use: Use) -> None:
    use(path)
    assert loader.ops() == ("scale", "twice")
    listed = loader.variants("scale")
    assert len(listed) == 12 and {v.cache for v in listed} == {"demo"}
    assert all(loader.get("scale", v.config, target=str(v.target)).artifact == v.artifact for v in listed)
    done = loader.preload(["twice", ("scale", {"dtype": "f32"})], target="sm_90a")
    assert [one.kernel.op for one in done.loaded] == ["twice", "scale"] and done.seconds > 0
    assert str(done).startswith("2 kernels in ") and "scale {dtype: float32" in str(done)


def test_a_missing_variant(path: Path, use: Use) -> None:
    use(path)
    with pytest.raises(loader.VariantNotFound) as caught:
        loader.get("scale", {"dtype": "int8", "threads": 64}, target="sm_90a")
    text = str(caught.value)
    assert len(caught.value.resolution.rejected) == 12 and "dtype is 'bfloat16', not 'int8'; threads is" in text  # type: ignore[attr-defined]
    assert text.count("    sm_") <= 3 and "and 9 more: loader.explain(...) lists them" in text
    assert text.endswith(
        "  - kernel: scale\n      config: {dtype: int8}\n      tuned: {threads: [64]}\n      targets: [sm_90a]"
    )
    decision = caught.value.resolution
    assert isinstance(decision, loader.Resolution) and len(decision.rejected) == 12 and decision.chosen is None


def test_no_cache_at_all(use: Use) -> None:
    use()
    if loader.caches():
        pytest.skip("caches are installed in this environment")
    with pytest.raises(loader.OpNotFound, match=r"(?m)caches looked at:\n  none[\s\S]*PRECAST_CACHE_PATH$"):
        loader.get("scale")


def test_without_a_device_get_says_what_to_do(path: Path, use: Use) -> None:
    use(path, machines=Machines(driver=CurrentDriver("libcuda-that-is-not-there.so.1")))
    with pytest.raises(loader.NoCudaDevice, match=r"is not installed.*give target='sm_90a'"):
        loader.get("scale", {"dtype": "bf16"})
    kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    with pytest.raises(loader.NoCudaDevice, match="is loaded, but there is no CUDA device"):
        kernel(None, None, 1.0)
    with pytest.raises(loader.ConfigError, match="exclude each other"):
        loader.get("scale", {"dtype": "bf16"}, device=0, target="sm_90a")
    with pytest.raises(loader.TargetError, match="write it like 'sm_90a'"):
        loader.get("scale", {"dtype": "bf16"}, target="hopper")
    with pytest.raises(loader.ConfigError, match="no config key 'dtpe'; did you mean 'dtype'"):
        loader.get("scale", {"dtpe": "bf16"}, target="sm_90a")
    assert os.environ["PRECAST_CACHE_PATH"] == str(path)


def test_one_folder_by_two_paths_is_one_cache(native: Native, tmp_path: Path, use: Use) -> None:
    use(demo(native).write(tmp_path / "cache"))
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    assert [found.path for found in discover(f"{tmp_path / 'link'}{os.pathsep}{tmp_path / 'cache'}")] == [
        tmp_path / "link"
    ]

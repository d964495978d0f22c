"""Pins: which caches they let in, and that nothing is read as "no pins"."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast import loader
from precast.loader.errors import ConfigError, IntegrityError
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.pins import check_pins, read_pins
from tests.helpers.caches import Native, demo
from tests.helpers.loader_fixtures import Use

A, B = "a" * 64, "b" * 64


def test_both_ways_to_write_them(tmp_path: Path) -> None:
    file = tmp_path / "pins"
    file.write_text(f"# ours\none={A}  # the old one\none={B}\n\ntwo={A}, three={B}\n")
    expected = {"one": frozenset({A, B}), "two": frozenset({A}), "three": frozenset({B})}
    assert read_pins(str(file)) == read_pins(f"one={A}, one={B} two={A},three={B}") == expected
    assert read_pins("") is None and read_pins("  ") is None


@pytest.mark.parametrize(
    "text", ["one=", f"={A}", f"One={A}", f"one={A[:-1]}", f"one={A.upper()}", f"one={A},two", "="]
)
def test_what_is_no_pin_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="write NAME=SHA256"):
        read_pins(text)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff=1", b"one\n", b"#" * (1 << 21)])
def test_a_file_without_pins_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pins").write_bytes(content)
    for path in (tmp_path / "pins", tmp_path / "missing", tmp_path):
        with pytest.raises(ConfigError):
            read_pins(str(path))


def test_only_the_pinned_cache_is_used(
    native: Native, tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, other = (demo(native, name=n).write(tmp_path / n) for n in ("good", "other"))
    digest = Cache(good).digest
    monkeypatch.setenv("PRECAST_PIN", f"good={digest}")
    use(other, good)
    assert [found.error is None for found in loader.caches()] == [False, True]
    assert "no pin names the cache 'other'" in str(loader.caches()[0])
    assert loader.explain("scale", {"dtype": "bf16"}, target="sm_90a").chosen.cache == "good"  # type: ignore[union-attr]
    index = good / "index.json"
    index.write_bytes(index.read_bytes() + b" ")
    with pytest.raises(loader.OpNotFound, match=r"not the one that is pinned[\s\S]*"):
        loader.caches(refresh=True)
        loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    monkeypatch.setenv("PRECAST_PIN", "good")
    with pytest.raises(ConfigError, match="cannot be read as pins"):
        loader.caches(refresh=True)
    with pytest.raises(ConfigError, match="cannot be read as pins"):
        loader.get("scale", {"dtype": "bf16"}, target="sm_90a")


def test_pins_by_argument(native: Native, tmp_path: Path, use: Use) -> None:
    path = demo(native).write(tmp_path / "demo")
    use(path)
    (found,) = loader.caches(pins={"demo": A})
    assert isinstance(found.error, IntegrityError)
    (found,) = loader.caches(pins={"demo": Cache(path).digest})
    assert found.error is None
    with pytest.raises(ConfigError):
        loader.caches(pins={})
    assert [f.error for f in loader.caches(refresh=True)] == [None], "they stay"
    with pytest.raises(ConfigError):
        check_pins([("demo", 7)])  # type: ignore[list-item]

"""Pinned packages: another release, a changed function or a missing library is named, and extras install the pin."""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path

import pytest

from precast.kernels.adapters.attention.library import FLASH
from precast.kernels.adapters.flashinfer.library import FLASHINFER
from precast.kernels.adapters.pinned_package import PackageError, PinnedPackage
from precast.kernels.adapters.quack.library import QUACK


def test_another_release_is_refused_by_name_and_version() -> None:
    for other, words in (
        (
            PinnedPackage(distribution="pytest", version="0.1", extra="x"),
            "pytest 0.1 is the version that this adapter supports, and",
        ),
        (PinnedPackage(distribution="no-such-library", version="0.1", extra="x"), "pip install 'precast[x]'"),
    ):
        assert words in str(other.obstacle())
        with pytest.raises(PackageError, match=other.distribution):
            other.module("json")


def test_a_changed_parameter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "upstream_changed.py").write_text("def compile(dtype, width):\n    return width\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = PinnedPackage(distribution="pytest", version=pytest.__version__, extra="x")
    assert library.call("upstream_changed:compile", dtype="a", width=3) == 3
    with pytest.raises(
        PackageError, match=r"upstream_changed:compile .*missing a required argument: 'width'.*dtype, w"
    ):
        library.call("upstream_changed:compile", dtype="a", N=3)
    with pytest.raises(PackageError, match="upstream_changed has no tile, which its adapter sets"):
        library.switch("upstream_changed", tile=3)


@pytest.mark.parametrize("library", [FLASH, FLASHINFER, QUACK], ids=lambda library: library.extra)
def test_the_extra_installs_the_version_that_the_adapter_supports(library: PinnedPackage) -> None:
    asked = [r.replace(" ", "").replace('"', "'") for r in requires("precast") or ()]
    assert f"{library};extra=='{library.extra}'" in asked

"""Native modules of a library while it is recorded without a GPU: none is built, and none does anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from precast.attach.builder.child.fake_modules import install_fake_modules


def test_what_builds_modules_gives_one_that_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fakemodlib.py").write_text(
        "class Spec:\n"
        "    def build(self): raise RuntimeError('a compiler was started')\n"
        "def load(): raise RuntimeError('sources were fetched')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    install_fake_modules(["fakemodlib:Spec.build", "fakemodlib:load"])
    import fakemodlib  # type: ignore[import-not-found]

    assert fakemodlib.Spec().build().sort(1, key=2) is None
    assert fakemodlib.load()["sort"](1) is None
    with pytest.raises(AttributeError):  # nobody takes it for a tensor
        _ = fakemodlib.load().__dlpack__
    del sys.modules["fakemodlib"]

"""The wrong kernels that tests/gpu/test_verify_wrong.py launches compile, and are declared as they compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import kept_store, succeeded
from tests.helpers.source_tree import ROOT

MANIFEST = ROOT / "tests" / "gpu" / "wrong.yaml"


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_they_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("build", MANIFEST, "-o", tmp_path / "cache", "-j", 1, "-t", "sm_90a")
    succeeded(*words, "--store", kept_store())
    monkeypatch.syspath_prepend(MANIFEST.with_name("wrong"))
    cache = Cache(tmp_path / "cache")
    assert len(cache.index.ops) == 13
    for op in cache.index.ops:
        (artifact,) = cache.op(op).artifacts
        declaration = declaration_of(load(FunctionRef.parse(f"wrong_kernels:{op.removeprefix('wrong.')}")))
        assert declaration.op == op and declaration.verifiable and declaration.inputs
        values = declaration.inputs({}, {"rows": 2, "columns": 3, "padding": 1}, device="cpu", seed=0)
        assert [a.name for a in artifact.signature.passed] == list(values)
        assert [a.name for a in artifact.signature.passed if a.written] == ["out"]

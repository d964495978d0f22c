"""A key has the file that the library itself would keep its kernel in, however the arguments were passed."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.adapters.disk_caches import files_of, passed_forms
from precast.kernels.authoring.errors import SourceError
from precast.loader.attach import CacheAttribute, Decorator, Functions, Library, declare
from precast.loader.contract.recordings.provenance import SOURCE, VERSION
from precast.loader.contract.recordings.recording import Recorded

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["bfloat16", "float32"]))


def compile_norm(n: Any, dtype: Any, out: Any = None, *, eps: Any = 1, pdl: Any = False) -> None:
    """A compile function with every kind of parameter."""


def key_to_hash(key: Any) -> str:
    return hashlib.sha256(pickle.dumps(key)).hexdigest()


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Two libraries whose functions are in this module: with a decorator, and with a mapping."""
    module: Any = ModuleType("disk_cache_of_tests")
    module._key_to_hash, module._compute_source_fingerprint = key_to_hash, lambda: "5" * 64
    sys.modules["disk_cache_of_tests"] = module
    sys.modules["functions_of_tests"] = here = ModuleType("functions_of_tests")
    vars(here)["compile_norm"] = compile_norm
    declared: dict[str, Any] = {"decorated": Decorator("disk_cache_of_tests", "jit_cache")}
    declared["mapped"] = CacheAttribute("functions_of_tests", "compile_cache")
    declared["plain"] = Functions("functions_of_tests", ("compile_norm",))
    for name, seam in declared.items():
        declare(Library(name=name, distribution="none", package="functions_of_tests", seams=(seam,)))


def recorded(library: str, **config: Any) -> Recorded:
    guard = {VERSION: "1", SOURCE: "0"}
    return Recorded(library=library, compile="functions_of_tests:compile_norm", config={**config, **guard})


@given(st.data(), PLAIN, PLAIN, PLAIN, PLAIN, PLAIN)
def test_every_way_to_pass_the_arguments_is_among_the_files(
    data: Any, n: Any, dtype: Any, out: Any, eps: Any, pdl: Any
) -> None:
    values = {"n": n, "dtype": dtype, "out": out, "eps": eps, "pdl": pdl}
    number = data.draw(st.integers(0, 3))
    args = tuple(list(values.values())[:number])
    rest = dict(list(values.items())[number:])
    if data.draw(st.booleans()):  # leave out what is a default
        defaults = {name: p.default for name, p in inspect.signature(compile_norm).parameters.items()}
        rest = {name: v for name, v in rest.items() if type(v) is not type(defaults[name]) or v != defaults[name]}
    name = key_to_hash((compile_norm.__qualname__, *args, *sorted(rest.items())))
    read = {name: "".join(list(v)) if isinstance(v, str) else v for name, v in values.items()}  # each a text of its own
    files = files_of(recorded("decorated", **read), Path("/none"))
    assert name in {file.name for file in files}
    assert {file.folders for file in files} == {("5" * 64,)}


def test_a_default_of_another_type_is_no_default() -> None:
    signature = inspect.signature(compile_norm)
    values = {"n": 1, "dtype": None, "out": None, "eps": True, "pdl": 0}
    assert all(("eps", True) in form and ("pdl", 0) in form for form in passed_forms(signature, values))


def test_equal_texts_may_be_one_object_or_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Mapping(dict[Any, Any]):
        cache_path = tmp_path / "5" / "fwd"
        _key_to_hash = staticmethod(key_to_hash)

    monkeypatch.setattr(compile_norm, "compile_cache", Mapping(), raising=False)
    word = "bfloat16"
    copy = "".join(list(word))
    files = files_of(recorded("mapped", key=[word, copy, ["x", None]]), tmp_path)
    names = {file.name for file in files}
    assert names == {key_to_hash((word, word, ("x", None))), key_to_hash((word, copy, ("x", None)))}
    assert len(names) == 2
    assert {file.folders for file in files} == {("5", "fwd")}


def test_what_names_no_files_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compile_norm, "compile_cache", {}, raising=False)
    with pytest.raises(SourceError, match="names its files in another way: record its program"):
        files_of(recorded("mapped", key=[1]), tmp_path)
    monkeypatch.delattr(sys.modules["disk_cache_of_tests"], "_key_to_hash")
    with pytest.raises(SourceError, match="names its files in another way: record its program"):
        files_of(recorded("decorated", n=1, dtype=1, out=1, eps=1, pdl=1), tmp_path)
    with pytest.raises(SourceError, match="plain keeps no files on disk"):
        files_of(recorded("plain", n=1), tmp_path)

"""What the call path remembers of the types of arguments."""

from __future__ import annotations

import gc
import importlib.util
import shutil
import sys
import weakref
from pathlib import Path

import pytest

import precast.loader.native
from precast.loader.launch import library
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from tests.helpers.caches import Native, echo_cache
from tests.helpers.echo import HOPPER, RETURN_TEXT, hands_over, needs_call_path, outcome
from tests.helpers.exchange import Fake


@pytest.fixture
def fresh(native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel whose call path has met no type yet: a copy of the library, which the linker opens anew."""
    name = "precast.loader.native._callpath"
    library.load_ffi()
    original = importlib.util.find_spec(name)
    assert original is not None and original.origin is not None
    copy = Path(shutil.copy(original.origin, tmp_path))
    spec = importlib.util.spec_from_file_location(name, copy)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(precast.loader.native, "_callpath", module, raising=False)
    monkeypatch.delitem(sys.modules, "precast.loader.launch.native_kernel", raising=False)
    cache, chosen = echo_cache(native, tmp_path / "echo")
    kernel = KernelOpener(lambda device: HOPPER).open(cache, "echo", chosen)
    kernel(0)  # the first call goes to tvm_ffi
    return kernel


@needs_call_path
def test_a_type_that_gets_an_exchange_later_is_packed_from_then_on(fresh: Kernel) -> None:
    """As torch.Tensor does in an older torch, once tvm_ffi is imported."""

    class Late:
        def __init__(self) -> None:
            self.fake = Fake(64, (2,))
            self.tensor = self.fake.tensor

    assert hands_over(fresh, 0, Late()) and hands_over(fresh, 0, (Late(),))
    Late.__dlpack_c_exchange_api__ = Fake.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    assert not hands_over(fresh, 0, Late())


def test_more_types_than_are_remembered(kernels: tuple[Kernel, Kernel]) -> None:
    fast, plain = kernels
    before = sys.getrefcount(Fake.__dlpack_c_exchange_api__)
    for number in range(20):
        kind = type(f"Fake{number}", (Fake,), {})
        one = kind(64 * number, (number,))
        assert outcome(fast, RETURN_TEXT, one, one) == outcome(plain, RETURN_TEXT, one, one)
    after = sys.getrefcount(Fake.__dlpack_c_exchange_api__)
    assert after == before


def test_a_type_that_is_remembered_stays(fresh: Kernel) -> None:
    """Another type at its address would be taken for it."""

    class Passing(Fake):
        pass

    seen = weakref.ref(Passing)
    fresh(0, Passing(64, (1,)))
    del Passing
    gc.collect()
    assert seen() is not None

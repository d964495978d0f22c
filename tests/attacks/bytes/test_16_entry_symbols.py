"""The index names a function of the C library as the entry: 'system', 'abort', or one of another library.

Only names with TVM-FFI's prefix are looked up, and an address that is not in the library itself is not taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from precast import loader
from tests.helpers.attacks import Fails, forge_op


@pytest.mark.parametrize(
    "symbol", ["system", "abort", "TVMFFIErrorSetRaisedFromCStr", "_init", "__tvm_ffi_", "a" * 257]
)
def test_a_function_that_is_no_entry(path: Path, fails: Fails, symbol: str) -> None:
    def change(op: Any) -> None:
        for row in op["artifacts"]:
            row["symbol"] = symbol

    forge_op(path, "scale", change)
    fails(path)


def test_an_entry_of_a_library_it_needs(native: Any, tmp_path: Path, fails: Fails) -> None:
    """dlsym also looks into what a library needs; a name found there is not this artifact's entry."""
    from tests.helpers.caches import CacheWriter, artifact, compiler, ffi_folder

    soname = "libprecast-rt-00000000000000ee.so"
    source = tmp_path / "both.c"
    source.write_text("int __tvm_ffi_scale(void) { return 7; }\n")
    compiler(source, f"-Wl,-soname,{soname}", "-o", tmp_path / soname)
    source.write_text("extern int __tvm_ffi_scale(void); int use(void) { return __tvm_ffi_scale(); }\n")
    compiler(source, tmp_path / soname, ffi_folder() / "lib" / "libtvm_ffi.so", "-o", tmp_path / "variant.so")
    writer = CacheWriter(name="both")
    writer.runtime(soname, (tmp_path / soname).read_bytes())
    blob = writer.keep((tmp_path / "variant.so").read_bytes())
    writer.op("scale", [artifact(blob, {"dtype": "bfloat16", "layout": "row", "threads": 1})])
    assert isinstance(fails(writer.write(tmp_path / "both"), "has no symbol __tvm_ffi_scale"), loader.LoadError)

"""The PTX of each object, which the store keeps."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from precast.build.store.store import Store
from tests.helpers.builds import manifest, module, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

# Two kernels of one name, of which one is returned; and one whose author has the compiler keep its PTX elsewhere.
TWO = """
from adding import *


def two(n: int):
    compile_add(n + 1)
    return compile_add(n)


def own(n: int):
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(),), assumed_align=16)
    return cute.compile(add_host, x, float(n), stream, options="--enable-tvm-ffi --keep-ptx --dump-dir FOLDER")
"""


def test_the_store_keeps_the_ptx_of_each_object_and_no_file_is_left(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    module(tmp_path, "twice", TWO.replace("FOLDER", str(kept)))
    plan = manifest(tmp_path, {"twice:two": [3, 5], "twice:own": [7]})
    done = precast(tmp_path / "work", "build", plan, "-o", tmp_path / "cache", "--store", tmp_path / "store", "-j", 1)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "store")
    records = [store.read(path.stem) for path in sorted((tmp_path / "store").glob("??/*.record"))]
    products = [product for record in records if record for product in record.products]
    assert len(products) == 3
    for product in products:
        text = product.ptx.decode()
        assert re.findall(r"\.entry\s+([^\s(]+)", text) == [resources.kernel for resources in product.resources]
    added = {n for n in (3, 4, 5, 6, 7, 8) for p in products if f"0f{_float(n)}" in p.ptx.decode()}
    assert added == {3, 5, 7}
    names = {name for name in tree(tmp_path) if name.endswith(".ptx")}
    assert all(name.startswith("kept/") for name in names)


def _float(number: int) -> str:
    return struct.pack(">f", number).hex().upper()

"""Records: all that was built of a variant, as a file of the store."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from precast.build.ipc.message import Message
from precast.build.store.record import Product, Record
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError
from tests.helpers.caches import HOST, signature

KEY = "0" * 64


def product(op: str, **more: Any) -> Product:
    return Product(
        op=op,
        symbol=f"__tvm_ffi_{op}",
        signature=signature("float32"),
        target=Target.parse("sm_90a"),
        host=HOST,
        resources=(),
        obj=f"object of {op}".encode(),
        library=f"library of {op}".encode(),
        cubins=(f"first of {op}".encode(), f"second of {op}".encode()),
        **more,
    )


RECORD = Record(key=KEY, products=(product("norm"), product("scale")), seconds=1.0)


def test_each_object_keeps_its_own_code() -> None:
    assert Record.decode(RECORD.encode(), key=KEY) == RECORD


@pytest.mark.parametrize("left", range(8))
def test_a_record_that_lacks_code_is_refused(left: int) -> None:
    message = Message.decode(RECORD.encode()[32:])
    body = Message(message.header, tuple(message.parts[:left])).encode()
    with pytest.raises(FormatError):
        Record.decode(hashlib.sha256(body).digest() + body, key=KEY)


def test_cubins_are_served_where_each_object_was_rehearsed() -> None:
    rehearsed = replace(RECORD, products=(product("norm", rehearsed=True), product("scale", rehearsed=True)))
    partly = replace(RECORD, products=(product("norm", rehearsed=True), product("scale")))
    assert rehearsed.serves(["object", "cubin"]) and not partly.serves(["object", "cubin"])
    assert partly.serves(["object"])


def with_ptx(*texts: bytes) -> Record:
    return replace(RECORD, products=tuple(replace(p, ptx=t) for p, t in zip(RECORD.products, texts, strict=True)))


def test_each_object_keeps_its_own_ptx() -> None:
    record = with_ptx(b"// first", b"// the second")
    assert Record.decode(record.encode(), key=KEY) == record
    assert record.serves(["object"], ptx=True)


def test_a_record_without_ptx_serves_no_request_for_it() -> None:
    record = with_ptx(b"// first", b"")
    assert Record.decode(record.encode(), key=KEY) == record
    assert record.serves(["object"]) and not record.serves(["object"], ptx=True)


@pytest.mark.parametrize("sizes", [[8], [8, 9, 1], [8, 14], [-8, 29], [True, 20], "ptx"])
def test_a_record_whose_ptx_has_another_size_is_refused(sizes: Any) -> None:
    message = Message.decode(with_ptx(b"// first", b"// the second").encode()[32:])
    body = Message({**message.header, "ptx": sizes}, message.parts).encode()
    with pytest.raises(FormatError, match="ptx"):
        Record.decode(hashlib.sha256(body).digest() + body, key=KEY)

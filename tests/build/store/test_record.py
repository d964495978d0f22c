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

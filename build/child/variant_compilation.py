"""Compiles one variant, in its own process: its function is called, and what it compiled is exported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from precast.build.child.compiler.keep_ptx import text_of
from precast.build.child.compiler.select_objects import Refused, select_objects
from precast.build.child.declaration_check import advice, wrong_names
from precast.build.child.requests import Requests
from precast.build.child.stand_in.need import needs_fake_cuda
from precast.build.satellites import satellite
from precast.kernels.authoring.registry import FunctionRef
from precast.loader.contract.format.several_objects import numbered
from precast.loader.contract.format.signature import Signature

_SEAM_OBJECTS = "precast.attach.builder.child.seam_objects"


def compile_variant(
    request: Mapping[str, Any], catcher: Any, facts: Any, requests: Requests
) -> tuple[dict[str, Any], list[bytes]]:
    """The reply to a request, and the objects; raises Refused."""
    from precast.kernels.authoring.declare import argument_names, declaration_of, is_declared, outputs_of
    from precast.kernels.authoring.registry import load

    source = FunctionRef.parse(request["source"])
    function = load(source)
    catcher.take()  # what its module compiled when it was imported
    returned = _returned_by(function, request["config"], on_no_gpu=needs_fake_cuda(source))
    symbols = request["symbols"]
    compiled = catcher.take()
    form = None
    if source.library:
        caught, form = satellite(_SEAM_OBJECTS).select_returned(compiled, returned, source=source)
        symbols = [numbered(symbols[0], number, "_") for number in range(len(caught))]
    else:
        caught = select_objects(compiled, returned, source=source, expected=len(symbols))
    names = argument_names(function, request["config"])
    signatures, objects, ptx = [], [], []
    for part, (item, symbol) in enumerate(zip(caught, symbols, strict=True)):
        if item.signature is None:
            raise Refused(f"{source} compiled without TVM-FFI: pass options='--enable-tvm-ffi' to cute.compile")
        signature = item.signature.renamed(names)
        if is_declared(function) and (wrong := wrong_names(declaration_of(function), signature, part)):
            raise Refused(f"{source}: {wrong}")
        signatures.append(signature.writing(outputs_of(function, part)).to_json())
        objects.append(export(item.compiled, symbol))
        ptx.append(text_of(item.compiled, item.ptx))
    reply = {
        "signatures": signatures,
        "ptx": ptx,
        "assumed": facts.requested(),
        "provenance": satellite(_SEAM_OBJECTS).seam_provenance(source, request["config"], caught, form, requests)
        if source.library
        else {},
    }
    return reply, objects


def advice_for(request: Mapping[str, Any], reply: Mapping[str, Any]) -> str:
    """What the author of a declared kernel should correct or add."""
    from precast.kernels.authoring.declare import declaration_of, is_declared
    from precast.kernels.authoring.registry import load
    from precast.loader.contract.format.config import to_value

    function = load(FunctionRef.parse(request["source"]))
    if not is_declared(function):
        return ""
    config = {name: to_value(value) for name, value in request["config"].items()}
    return advice(declaration_of(function), config, Signature.parse(reply["signatures"][0]))


def _returned_by(function: Any, config: Mapping[str, Any], *, on_no_gpu: bool) -> Any:
    """The return value of a function. One that does not use precast may launch its kernel: it is stopped there."""
    from precast.kernels.adapters.first_launch import compiled_until_launch
    from precast.kernels.authoring.declare import is_declared
    from precast.kernels.authoring.schema import call

    if is_declared(function):
        with _on_no_gpu() if on_no_gpu else nullcontext():
            return call(function, config)
    return compiled_until_launch(lambda: call(function, config), tensors=_on_no_gpu)


@contextmanager
def _on_no_gpu() -> Iterator[None]:
    from precast.build.child.stand_in.fake_cuda import install_fake_cuda
    from precast.build.child.stand_in.no_gpu import without_gpu

    install_fake_cuda()  # for good: this process compiles one variant
    with without_gpu():
        yield


def export(compiled: Any, symbol: str) -> bytes:
    """The object's bytes, exported to a file in memory: a process that is killed leaves no file."""
    with os.fdopen(os.memfd_create("variant.o"), "rb") as file:
        compiled.export_to_c(f"/proc/self/fd/{file.fileno()}", function_name=symbol, export_only_tvm_ffi_symbols=True)
        return file.read()

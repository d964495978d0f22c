"""Compiles one variant, in its own process: its function is called, and what it compiled is exported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from precast.build.child.compiler.capture import Caught
from precast.build.child.compiler.keep_ptx import text_of
from precast.build.child.compiler.select_objects import Refused, select_objects, select_returned
from precast.build.child.declaration_check import advice, wrong_names
from precast.build.child.facts.kernel_facts import kernel_facts
from precast.build.child.facts.requests import Requests
from precast.build.child.stand_in.need import needs_fake_cuda
from precast.kernels.authoring.registry import FunctionRef
from precast.loader.attach import library_named
from precast.loader.contract.format.signature import Signature


def compile_variant(
    request: Mapping[str, Any], catcher: Any, facts: Any, requests: Requests
) -> tuple[dict[str, Any], list[bytes]]:
    """The reply to a request, and the objects; raises Refused."""
    from precast.kernels.authoring.declare import argument_names, declaration_of, is_declared, outputs_of
    from precast.kernels.authoring.registry import load
    from precast.loader.contract.recordings.return_structure import numbered

    source = FunctionRef.parse(request["source"])
    function = load(source)
    catcher.take()  # what its module compiled when it was imported
    returned = _returned_by(function, request["config"], on_no_gpu=needs_fake_cuda(source))
    symbols = request["symbols"]
    compiled = catcher.take()
    form = None
    if source.library:
        caught, form = select_returned(compiled, returned, source=source)
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
        "native": _native(caught) if source.library else None,
        "returns": form,
        "facts": _kernel_facts(request, requests) if source.library else None,
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


def _kernel_facts(request: Mapping[str, Any], requests: Requests) -> dict[str, Any]:
    """What decided the kernel of an attached library beside its key."""
    source = FunctionRef.parse(request["source"])
    library = library_named(source.library)
    return kernel_facts(
        _roots_of(source),
        library.package,
        request["config"],
        requests=requests.all,
        compiling=requests.recent,
        by_module=library.by_module,
    ).to_json()


def _roots_of(source: FunctionRef) -> list[object]:
    """A function; of a method, also its class."""
    roots: list[Any] = [sys.modules[source.module]]
    for name in source.function.split("."):
        roots.append(getattr(roots[-1], name, None))
    return roots[1:]


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
    from precast.build.child.record_main import without_gpu
    from precast.build.child.stand_in.fake_cuda import install_fake_cuda

    install_fake_cuda()  # for good: this process compiles one variant
    with without_gpu():
        yield


def _native(caught: Sequence[Caught]) -> dict[str, Any] | None:
    """The defaults of calls in the DSL's native convention; None if the library compiles for TVM-FFI."""
    natives = [call.native for call in caught]
    if all(native is None for native in natives):
        return None
    if any(native is None for native in natives):
        raise Refused("the function compiles some objects with --enable-tvm-ffi and some without: use it for all")
    return {name: value for native in natives for name, value in (native or {}).items()}


def export(compiled: Any, symbol: str) -> bytes:
    """The object's bytes, exported to a file in memory: a process that is killed leaves no file."""
    with os.fdopen(os.memfd_create("variant.o"), "rb") as file:
        compiled.export_to_c(f"/proc/self/fd/{file.fileno()}", function_name=symbol, export_only_tvm_ffi_symbols=True)
        return file.read()

"""The objects of a compile function of an attached library, and what their artifacts say beside its key."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from precast.attach.builder.child.facts.kernel_facts import kernel_facts
from precast.attach.library import library_named
from precast.attach.recordings.provenance import FACTS, NATIVE_CALL, RETURNS
from precast.attach.recordings.return_structure import structure_of
from precast.build.child.compiler.capture import Caught
from precast.build.child.compiler.select_objects import Refused
from precast.build.child.requests import Requests
from precast.kernels.authoring.registry import FunctionRef
from precast.loader.contract.format.several_objects import MOST


def select_returned(caught: Sequence[Caught], returned: object, *, source: object) -> tuple[tuple[Caught, ...], Any]:
    """The objects of a compile function of an attached library, and the structure in which it returned them.

    >>> one, two = Caught(compiled=object(), signature=None), Caught(compiled=object(), signature=None)
    >>> select_returned([one, two], (two.compiled, one.compiled), source="m:f")[1]
    [['$made:kernel'], ['$made:kernel', 1]]
    """
    if not caught:
        raise Refused(f"{source} compiled nothing: record it again with the installed versions")
    form, objects = structure_of(returned, [item.compiled for item in caught])
    if len(objects) > MOST:
        raise Refused(f"{source} compiled {len(objects)} objects, more than the limit of {MOST}: remove this entry")
    return tuple(next(c for c in caught if c.compiled is item) for item in objects), form


def seam_provenance(
    source: FunctionRef, config: object, caught: Sequence[Caught], form: Any, requests: Requests
) -> dict[str, Any]:
    """What a seam adds to the provenance: the structure that the function returned, None for an object itself; the
    defaults of calls in the DSL's native convention; and the facts that decided the kernel beside its key."""
    native = _native(caught)
    return {
        **({} if form is None else {RETURNS: form}),
        **({} if native is None else {NATIVE_CALL: native}),
        FACTS: _facts(source, config, requests),
    }


def _facts(source: FunctionRef, config: object, requests: Requests) -> dict[str, Any]:
    library = library_named(source.library)
    return kernel_facts(
        _roots_of(source),
        library.package,
        config,
        requests=requests.all,
        compiling=requests.recent,
    ).to_json()


def _roots_of(source: FunctionRef) -> list[object]:
    """A function; of a method, also its class."""
    roots: list[Any] = [sys.modules[source.module]]
    for name in source.function.split("."):
        roots.append(getattr(roots[-1], name, None))
    return roots[1:]


def _native(caught: Sequence[Caught]) -> dict[str, Any] | None:
    """The defaults of calls in the DSL's native convention; None if the library compiles for TVM-FFI."""
    natives = [call.native for call in caught]
    if all(native is None for native in natives):
        return None
    if any(native is None for native in natives):
        raise Refused("the function compiles some objects with --enable-tvm-ffi and some without: use it for all")
    return {name: value for native in natives for name, value in (native or {}).items()}

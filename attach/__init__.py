"""Attach: other libraries' own front ends, unmodified, with kernels from caches.

``attach(...)`` is called before the libraries are imported. From then on, where one of them would compile a kernel, it
is looked up in the caches first. Programs reach it through the loader:

    from precast import loader
    loader.attach(["quack"])
    import quack

``python -m precast.loader.attach [options] script.py ...`` does the same for a program that is not to be changed, and
the variable ``PRECAST_ATTACH`` for every process that inherits it (``precast.attach.activation``). Python imports this
at each start of such a process, so a name's module is imported at its first use.
"""

from __future__ import annotations

import importlib

from precast.loader.locks import IMPORT_LOCK

TYPE_CHECKING = False  # typing's own would import typing, which takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from precast.attach.attachment import Attachment, KernelMissing
    from precast.attach.compiler.placeholder import NoCompiler
    from precast.attach.deferred.module import DeferredImportFailed
    from precast.attach.deferred.modules import DeferredModules
    from precast.attach.deferred.torch_compiler import TorchCompiler
    from precast.attach.guards import Guard, NotInstalled
    from precast.attach.libraries.native_stubs import NativeOperatorAbsent
    from precast.attach.library import SHIPPED, Library, Seam, declare, library_named
    from precast.attach.machine_report import recorded_libraries
    from precast.attach.process import attach, attached
    from precast.attach.recordings.keys import UnknownKey
    from precast.attach.recordings.recording import Recorded
    from precast.attach.seam_count import SeamCount
    from precast.attach.seams.hooks import CacheAttribute, CompileFunctions, Decorator, Functions
    from precast.attach.seams.method_hooks import ClassMethods, Keyed, KeyedMethods
    from precast.attach.seams.shared_mapping import SharedMapping

__all__ = [
    "SHIPPED",
    "Attachment",
    "CacheAttribute",
    "ClassMethods",
    "CompileFunctions",
    "Decorator",
    "DeferredImportFailed",
    "DeferredModules",
    "Functions",
    "Guard",
    "KernelMissing",
    "Keyed",
    "KeyedMethods",
    "Library",
    "NativeOperatorAbsent",
    "NoCompiler",
    "NotInstalled",
    "Recorded",
    "Seam",
    "SeamCount",
    "SharedMapping",
    "TorchCompiler",
    "UnknownKey",
    "attach",
    "attached",
    "declare",
    "library_named",
    "recorded_libraries",
]

_HOMES = {
    **dict.fromkeys(("Attachment", "KernelMissing"), "attachment"),
    **dict.fromkeys(("CacheAttribute", "CompileFunctions", "Decorator", "Functions"), "seams.hooks"),
    **dict.fromkeys(("ClassMethods", "Keyed", "KeyedMethods"), "seams.method_hooks"),
    **dict.fromkeys(("Guard", "NotInstalled"), "guards"),
    **dict.fromkeys(("SHIPPED", "Library", "Seam", "declare", "library_named"), "library"),
    **dict.fromkeys(("attach", "attached"), "process"),
    "DeferredImportFailed": "deferred.module",
    "DeferredModules": "deferred.modules",
    "NativeOperatorAbsent": "libraries.native_stubs",
    "NoCompiler": "compiler.placeholder",
    "Recorded": "recordings.recording",
    "SeamCount": "seam_count",
    "SharedMapping": "seams.shared_mapping",
    "TorchCompiler": "deferred.torch_compiler",
    "UnknownKey": "recordings.keys",
    "recorded_libraries": "machine_report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with IMPORT_LOCK:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

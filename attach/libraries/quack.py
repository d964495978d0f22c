"""quack: one decorator memoises every compile function.

A fused product is compiled for a class that quack makes out of an epilogue, and its key refers to it by a digest. An
epilogue that a function of ``quack.epilogue.library`` makes has no name in a module. The call that made it is noted and
replaces the digest in the key.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from precast.attach.compiler.occupancy import clusters_of_this_gpu
from precast.attach.deferred.torch_compiler import TorchCompiler
from precast.attach.deferred.triton import Triton
from precast.attach.late.holders import if_imported
from precast.attach.library import KernelSource, Library, Seam
from precast.attach.recordings.key_reader import find
from precast.attach.seams.hooks import Decorator
from precast.loader.contract.import_hook import after_import

_CLASS_REF = "gemm_class"


class EpilogueFactories(Seam):
    """The functions of a module that make epilogues; they compile nothing."""

    module: str

    def install(self, attachment: KernelSource, library: Library) -> None:
        def change(module: ModuleType) -> None:
            for name, value in list(vars(module).items()):
                function = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else None
                if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_"):
                    path = f"{module.__name__}:{name}"
                    setattr(module, name, noting_arguments(attachment.notes, path, function, value))

        after_import({self.module: change})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """The epilogues that were made before were not noted."""
        return if_imported(self.module)


def noting_arguments(
    notes: dict[str, Any], path: str, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """The same function; it notes each epilogue that it makes by its digest: the function's path and the arguments."""
    signature = inspect.signature(function)

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        epilogue = original(*args, **kwargs)
        digest = getattr(epilogue, "semantic_digest", None)
        if isinstance(digest, str) and digest not in notes:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            notes[digest] = (path, tuple(bound.arguments.items()))
        return epilogue

    return make


def describe(value: Any, notes: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]] | None:
    """How to make a reference to a class whose epilogue has no name in a module; None for any other value."""
    if type(value).__name__ != "GemmClassRef" or value.kind != "epi_mod_local" or value.semantic_digest not in notes:
        return None
    return _CLASS_REF, (*notes[value.semantic_digest], value.mint_key)


def class_ref(path: str, arguments: tuple[tuple[str, Any], ...], mint_key: tuple[Any, ...]) -> Any:
    """The reference made again: making the epilogue registers it in this process under its digest."""
    return find(path)(**dict(arguments))._class_ref(mint_key)


def process_local(forms: Mapping[str, Any]) -> str | None:
    """quack refers to an epilogue or a transform that no module holds by a digest that other processes cannot resolve.

    >>> process_local({"gemm_cls_ref": ["$namedtuple:quack.gemm_runtime.identity:GemmClassRef", "epi_mod_local"]})
    'its epilogue has no name in a module, so that no other process can build it: define it in a module'
    """
    for name, what in (("gemm_cls_ref", "epilogue"), ("transform_a_ref", "transform")):
        form = forms.get(name)
        if isinstance(form, list) and any(isinstance(item, str) and item.endswith("_local") for item in form):
            return f"its {what} has no name in a module, so that no other process can build it: define it in a module"
    return None


LIBRARY = Library(
    name="quack",
    distribution="quack-kernels",
    package="quack",
    seams=(
        TorchCompiler(),  # its autotuner, a quantizer and a check of tracing decorate functions with it
        Triton("quack.cute_dsl_utils"),  # for its autotuner's cache, and to print machine code
        Decorator("quack.cache.jit", "jit_cache"),
        EpilogueFactories("quack.epilogue.library"),
    ),
    environment={"QUACK_CACHE_ENABLED": "0"},  # its disk cache: keys without an architecture, files that need the DSL
    refuses=process_local,
    describe=describe,
    makers={_CLASS_REF: class_ref},
    answers={"quack.cute_dsl_utils:get_max_active_clusters": clusters_of_this_gpu},
)

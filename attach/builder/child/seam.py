"""Seams: a compile function of an attached library is a kernel, with the library's own key for its config.

A manifest names one as ``module:function@library``, as recordings do. The config's values are in the form that
``precast.attach.recordings.keys`` gives them; the library's version and the digest of its sources are part
of the config.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from types import MappingProxyType, MethodType
from typing import Any

from precast.attach.guards import Guard
from precast.attach.library import Library, library_named
from precast.attach.recordings.key_reader import decode, find, original_of
from precast.attach.recordings.keys import canonical, encode
from precast.attach.recordings.provenance import COMPILER, DSL_DISTRIBUTION, SOURCE, VERSION
from precast.attach.seams.hooks import CacheAttribute
from precast.attach.seams.method_hooks import STATE, Keyed, KeyedMethods, static_function
from precast.attach.seams.shared_mapping import SharedMapping
from precast.kernels.adapters.fake_tensors import fake_tensors, without_gpu
from precast.kernels.authoring.declare import GRID, Declaration, attach
from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.hints import Tuned
from precast.kernels.authoring.schema import keys_of
from precast.loader.contract.format.config import Config, to_json
from precast.loader.contract.format.target import Target

KEY, CALL = "key", "call"
# Libraries whose kernels ask for the GPU to size a persistent grid, whose blocks take tiles in turn. FlashAttention's
# deterministic backward passes wait for other blocks, and ask nothing. Not named: quack, whose split-K tiles wait for
# each other, and FlashInfer, some of whose kernels wait for the whole grid. Where theirs ask, the numbers must hold.
_SPEED_ONLY = {"flash_attention": GRID, "cutlass_operators": GRID}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def seam_kernel(path: str, name: str) -> Callable[..., Any]:
    """The kernel function of a compile function, ``module:function``, of the library of a name."""
    library = prepare_library(name)
    guard = library.guard()
    module = path.partition(":")[0]
    cache = next((s for s in library.seams if isinstance(s, CacheAttribute) and s.module == module), None)
    shared = next((s for s in library.seams if isinstance(s, SharedMapping) and s.holds(path)), None)
    recorded = library.compile_recorded
    parameters = [inspect.Parameter(KEY, _KEYWORD), inspect.Parameter(CALL, _KEYWORD, annotation=Tuned)]
    if recorded is not None:

        def compile_it(**config: Any) -> Any:
            with without_gpu():
                with fake_tensors():
                    arguments = _arguments(library, config[CALL])
                return recorded(to_json(config[KEY]), **arguments)

    elif cache is not None:

        def compile_it(**config: Any) -> Any:
            with _attributes_replaced(path, cache.attribute) as stored:
                return _compile_call(library, path, stored, config[KEY], config[CALL])

    elif shared is not None:

        def compile_it(**config: Any) -> Any:
            with _mapping_replaced(shared) as stored:
                return _compile_call(library, path, stored, config[KEY], config[CALL])

    elif (keyed := _keyed(library, path)) is not None:
        owner, function, how = keyed
        parameters = [inspect.Parameter(STATE, _KEYWORD), *list(_parameters(path, function))[1:]]

        def compile_it(**config: Any) -> Any:
            arguments = _decoded(library, {n: config[n] for n in config if n not in _GUARDED})
            return _compile_method(owner, function, how, arguments.pop(STATE), arguments)

    else:
        function = _function_of(path)
        parameters = list(_parameters(path, function))

        def compile_it(**config: Any) -> Any:
            return _compile_function(library, function, {n: config[n] for n in config if n not in _GUARDED})

    parameters += [
        inspect.Parameter(VERSION, _KEYWORD, default=guard.version),
        inspect.Parameter(SOURCE, _KEYWORD, default=guard.source),
        inspect.Parameter(COMPILER, _KEYWORD, default=version(DSL_DISTRIBUTION), annotation=Tuned[str]),
    ]
    compile_it.__name__ = path.rpartition(".")[2].rpartition(":")[2]
    compile_it.__doc__ = f"{path} of {library.distribution}, as its own front ends ask for it."
    compile_it.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    declaration = Declaration(
        op=library.op(path),
        keys=keys_of(compile_it),
        supports=lambda config, target: _refusal(library, guard, config, target),
        arguments=MappingProxyType({}),
        speed_only=_SPEED_ONLY.get(name, ()),
    )
    return attach(compile_it, declaration)


def prepare_library(name: str) -> Library:
    """Let a library be imported in this process, which has no GPU, with the environment that it is attached with.

    To be called before any of its modules is imported: they ask for the platform, which decides their kernels.
    """
    library = library_named(name)
    for variable, value in library.environment.items():
        os.environ.setdefault(variable, value)
    _without_gpu(name)
    return library


def runs_without_gpu(name: str) -> bool:
    """Whether a library says what to do where there is no GPU."""
    return library_named(name).without_gpu is not None


@functools.cache
def _without_gpu(name: str) -> None:
    prepare = library_named(name).without_gpu
    if prepare is not None:
        prepare()


_GUARDED = (VERSION, SOURCE, COMPILER)


def _refusal(library: Library, guard: Guard, config: Config, target: Target) -> str | None:
    """Why the installed library or DSL is not the one that the key was recorded with; None where it is."""
    expected = {VERSION: guard.version, SOURCE: guard.source, COMPILER: version(DSL_DISTRIBUTION)}
    for name, current in expected.items():
        if config[name] != current:
            what = DSL_DISTRIBUTION if name == COMPILER else library.distribution
            recorded, installed = (str(text)[:16] for text in (config[name], current))
            return (
                f"{name} is {recorded} in the recording, and {installed} in the installed {what}: install the recorded "
                "version, or record again"
            )
    return None


def _parameters(path: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _GUARDED:
            raise SourceError(f"{path} has a parameter {parameter.name!r}, which a seam reserves: it cannot be a seam")
        default = parameter.default
        if default is not inspect.Parameter.empty:
            default = _plain(encode(default))
        names.append(inspect.Parameter(parameter.name, _KEYWORD, default=default))
    return names


def _plain(form: Any) -> Any:
    return tuple(map(_plain, form)) if isinstance(form, list) else form


def _keyed(library: Library, path: str) -> tuple[type, Callable[..., Any], Keyed] | None:
    """A method that files what it compiles: its class, the method, and how it files; None for any other function."""
    class_path, _, method = path.rpartition(".")
    if ":" not in class_path:
        return None
    owner = find(class_path)
    seams = [seam for seam in library.seams if isinstance(seam, KeyedMethods)]
    how = next((keyed for seam in seams if (keyed := seam.keyed(owner, method))), None)
    return None if how is None else (owner, getattr(owner, method), how)


def _function_of(path: str) -> Callable[..., Any]:
    """The compile function itself, below every cache; a class method is bound to its class."""
    class_path, _, name = path.rpartition(".")
    if ":" not in class_path:
        return original_of(path)
    owner = find(class_path)
    function = static_function(inspect.getattr_static(owner, name))
    if function is None:
        raise SourceError(f"{path} is an object's method, which its library does not declare: use KeyedMethods for it")
    return function if not _is_class_method(owner, name) else MethodType(function, owner)


def _is_class_method(owner: type, name: str) -> bool:
    value = inspect.getattr_static(owner, name)
    return isinstance(getattr(value, "__wrapped__", value), classmethod) or isinstance(value, classmethod)


def _decoded(library: Library, config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: decode(to_json(form), makers=library.makers) for name, form in config.items()}


def _compile_function(library: Library, function: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    bound = inspect.signature(function).bind_partial()
    bound.arguments.update(_decoded(library, config))
    return function(*bound.args, **bound.kwargs)


def _compile_method(
    owner: type, method: Callable[..., Any], keyed: Keyed, state: Any, arguments: Mapping[str, Any]
) -> Any:
    """What a method returns and files, on an object with these attributes."""
    instance: Any = object.__new__(owner)  # without what its constructor would ask of the machine
    for name, value in (*state, *((name, {}) for name in keyed.filed)):
        object.__setattr__(instance, name, value)
    returned = method(instance, **arguments)
    return returned, {name: dict(getattr(instance, name)) for name in keyed.filed if getattr(instance, name)}


def _arguments(library: Library, call: Any) -> dict[str, Any]:
    """The arguments of a recorded call, inside ``fake_tensors``, whose tensors only it can use."""
    return {name: decode(to_json(form), tensor=_tensor, makers=library.makers) for name, form in call}


def _compile_call(library: Library, path: str, stored: Mapping[Any, Any], key: Any, call: Any) -> Any:
    """Call a function that keeps what it compiles, on tensors without memory, and return what it keeps for the key."""
    with fake_tensors(), contextlib.suppress(_Stored):
        find(path)(**_arguments(library, call))
    request = canonical(to_json(key))
    for entry, compiled in stored.items():
        if canonical(encode(entry)) == request:
            return compiled
    entries = "; ".join(canonical(encode(entry))[:300] for entry in stored) or "none"
    raise SourceError(f"{path}: the recorded call has a different key here ({entries}): record it again")


@contextlib.contextmanager
def _attributes_replaced(path: str, attribute: str) -> Iterator[Mapping[Any, Any]]:
    """The mapping in which a function keeps what it compiles, empty; other functions of its module compile nothing."""
    module, _, name = path.partition(":")
    owner = importlib.import_module(module)
    stored, others = _CompileCache(), _FullCache()
    caches = {other: vars_of(value).get(attribute) for other, value in vars(owner).items()}
    before = {other: cache for other, cache in caches.items() if cache is not None}
    for other in before:
        setattr(getattr(owner, other), attribute, stored if other == name else others)
    try:
        yield stored
    finally:
        for other, cache in before.items():
            setattr(getattr(owner, other), attribute, cache)


@contextlib.contextmanager
def _mapping_replaced(seam: SharedMapping) -> Iterator[Mapping[Any, Any]]:
    """The mapping in which several functions keep what they compile, empty."""
    owner = importlib.import_module(seam.module)
    before, stored = getattr(owner, seam.attribute), _StoredOnce()
    setattr(owner, seam.attribute, stored)
    try:
        yield stored
    finally:
        setattr(owner, seam.attribute, before)


def _tensor(dtype: str, sizes: list[int], strides: list[int], requires_grad: bool) -> Any:
    import torch

    tensor = torch.empty_strided(sizes, strides, dtype=getattr(torch, dtype), device="cuda")
    return tensor.requires_grad_() if requires_grad else tensor


def vars_of(value: object) -> Mapping[str, Any]:
    """The attributes of a function; nothing for anything else."""
    return vars(value) if inspect.isfunction(value) else {}


class _CompileCache(dict[Any, Any]):
    """Keeps what is stored, and gives a kernel that does nothing when one is looked up."""

    def __getitem__(self, key: Any) -> Any:
        return lambda *args, **kwargs: None


class _FullCache(_CompileCache):
    """Has every key already, so that only the kernel of the key is compiled."""

    def __contains__(self, key: object) -> bool:
        return True


class _Stored(Exception):
    """The kernel is compiled and stored: the rest of the call would launch it."""


class _StoredOnce(dict[Any, Any]):
    """Keeps what is stored, and ends the call that stores it."""

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(key, compiled)
        raise _Stored

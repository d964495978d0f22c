"""Names of the DSL, for a machine where it is not installed, so that modules which import it can be imported.

A placeholder implements nothing and replaces nothing: it is a name that has further names as attributes. A module may
derive classes from it, decorate functions with it, subscript it and compare it by identity. A numeric type that is
called with a number returns that number, since libraries pass ``Int32(n)`` to a compiled kernel. Anything else that is
called raises ``NoCompiler``, with the name. Who gets placeholders is decided by ``importers``.
"""

from __future__ import annotations

import copyreg
import types
from collections.abc import Iterator
from typing import Any

from precast.attach.recordings.provenance import DSL_DISTRIBUTION
from precast.loader.errors import PrecastError

DSL = "cutlass"
_INTEGERS = {
    **{f"Int{n}": n for n in (4, 8, 16, 32, 64, 128)},
    **{f"Uint{n}": n for n in (8, 16, 32, 64, 128)},
}
_FLOATS = {
    "Float64": 64, "Float32": 32, "TFloat32": 32, "Float16": 16, "BFloat16": 16, "Float8E4M3FN": 8, "Float8E5M2": 8,
    "Float8E4M3": 8, "Float8E8M0FNU": 8, "Float8E4M3B11FNUZ": 8, "Float6E2M3FN": 6,
    "Float6E3M2FN": 6, "Float4E2M1FN": 4,
}  # fmt: skip
_WIDTHS = {**_INTEGERS, **_FLOATS, "Boolean": 8}
_CUDA = types.SimpleNamespace(major=12, minor=9)  # of the toolkit that caches are built with
# Names that Python looks up to find out what a class or a value can do: a placeholder has none of them.
_PROTOCOL = frozenset((
    "__abstractmethods__", "__isabstractmethod__", "__set_name__", "__get__", "__set__", "__delete__",
    "__wrapped__", "__orig_bases__", "__parameters__", "__dataclass_fields__", "__dataclass_params__", "__slots__",
    "__match_args__", "__signature__", "__text_signature__", "__annotations__", "__annotate__",
    "__annotate_func__", "__type_params__", "__await__", "__aiter__", "__iter__", "__next__", "__len__",
    "__index__", "__fspath__", "__array__", "__dlpack__", "__dlpack_device__", "__cuda_array_interface__",
    "__torch_function__", "__mro_entries__", "__class_getitem__", "__typing_subst__", "__copy__", "__deepcopy__",
    "__reduce_ex__", "__getstate__", "__file__", "__path__", "__all__", "__spec__", "__loader__",
    "__warningregistry__", "__firstlineno__", "__static_attributes__", "__origin__", "__supertype__", "__bound__",
    "__constraints__", "__forward_arg__", "__args__", "__no_type_check__", "__objclass__", "__tvm_ffi_object__",
    "__tvm_ffi_value__", "__dlpack_c_exchange_api__",
))  # fmt: skip


class NoCompiler(PrecastError, ImportError):
    """The DSL is needed here but is not installed. Libraries that can do without it catch ``ImportError``."""

    code = "PCA04"


class _Kind(type):
    """The type of all placeholders. They are classes, because libraries derive from them."""

    def __getattr__(cls, name: str) -> Any:
        if name in _PROTOCOL or not _is_placeholder(cls):
            raise AttributeError(f"{cls.__name__} has no {name}")
        return _child(_path(cls), name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not _is_placeholder(cls) or issubclass(cls, Exception):
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs:
            value = args[0]
            if cls.__name__ in _WIDTHS and isinstance(value, (int, float)):
                return _number(cls.__name__, value)
            if isinstance(value, (types.FunctionType, type, staticmethod, classmethod, property)):
                return value  # a decorator
            if cls.__name__ == "const_expr":
                return value
        if not args:
            return _Nothing(_path(cls))  # a decorator with options, or a query that a module makes at its import
        raise _no_compiler(f"{_path(cls)} was called")

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __instancecheck__(cls, value: object) -> bool:
        return False if _is_placeholder(cls) else type.__instancecheck__(cls, value)

    def __repr__(cls) -> str:
        return f"<no {_path(cls)}>" if _is_placeholder(cls) else type.__repr__(cls)


class _Nothing:
    """The result of a call without positional arguments: a decorator that changes nothing, or an empty list."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, decorated: Any) -> Any:
        return decorated

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getattr__(self, name: str) -> Any:
        if name in _PROTOCOL or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        raise _no_compiler(f"{self._path}().{name} was read")

    def _needed(self, *others: object) -> Any:
        raise _no_compiler(f"the value of {self._path}() was read")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _needed
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = _needed
    __index__ = __bool__ = __len__ = __getitem__ = _needed


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _no_compiler(what: str) -> NoCompiler:
    return NoCompiler(
        f"{what}, but no cache serves this call and the compiler is not installed: record the program, build the"
        f" recording and install that cache, or pip install {DSL_DISTRIBUTION}"
    )


def _is_placeholder(cls: type) -> bool:
    return "_placeholder" in cls.__dict__


def _number(name: str, value: float) -> float:
    if name in _FLOATS:
        return float(value)
    return bool(value) if name == "Boolean" else int(value)


_made: dict[str, Any] = {}


def _child(parent: str, name: str) -> Any:
    """The placeholder of a name. A numeric type is one object, whichever module it is taken from."""
    path = f"{DSL}.{name}" if name in _WIDTHS else f"{parent}.{name}"
    if path not in _made:
        module, _, last = path.rpartition(".")
        body: dict[str, Any] = {"_placeholder": True, "__module__": module, "__qualname__": last}
        if name in _WIDTHS:
            body |= {"width": _WIDTHS[name], "is_integer": name in _INTEGERS, "is_float": name in _FLOATS}
        bases = (Exception,) if last.endswith(("Error", "Exception")) else ()  # so that it can be caught
        _made[path] = _Kind(last, bases, body)
    return _made[path]


class Module(types.ModuleType):
    """A placeholder of a module. It is not in ``sys.modules``, where everybody would find it."""

    def __getattr__(self, name: str) -> Any:
        if name in _PROTOCOL:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        child = _modules.get(f"{self.__name__}.{name}") or _child(self.__name__, name)
        setattr(self, name, child)
        return child


_modules: dict[str, Module] = {}


def module_named(name: str) -> Module:
    """The placeholder of a module of the DSL, one for all who import it.

    >>> module_named("cutlass.cute").nvgpu
    <no cutlass.cute.nvgpu>
    """
    if name not in _modules:
        parent, _, last = name.rpartition(".")
        module = Module(name, "Names of the DSL, which is not installed (precast.loader.attach).")
        module.__path__ = []
        if parent:
            setattr(module_named(parent), last, module)
        else:
            vars(module)["CUDA_VERSION"] = _CUDA
        _modules[name] = module
    return _modules[name]


def forget() -> None:
    """Make every module's placeholder anew from now on."""
    _modules.clear()


def _found(path: str) -> Any:
    """The placeholder that has this path, for copies by ``pickle``."""
    parent, _, name = path.rpartition(".")
    return _child(parent, name)


copyreg.pickle(
    _Kind,
    lambda cls: (_found, (_path(cls),)) if _is_placeholder(cls) else cls.__qualname__,
)

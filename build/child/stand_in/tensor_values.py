"""Values of small tensors, while a program runs on tensors without memory.

Host code reads small integer tensors: lengths of sequences, page tables, group sizes. A tensor that is made from Python
values, or from a tensor on the CPU, keeps its values beside it, and so does the result of a computation with only such
tensors. Random integers are drawn as usual. A kernel that would write to such a tensor is not launched, so its values
do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

LIMIT = 1 << 16
_VALUES = "_precast_values"
_SOURCES = (
    torch.tensor, torch.as_tensor, torch.arange, torch.zeros, torch.ones, torch.full, torch.randint, torch.randperm,
)  # fmt: skip
_READS = (
    torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, torch.Tensor.__bool__,
    torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__, torch.Tensor.__contains__,
)  # fmt: skip
_SIZED_METHODS = (
    torch.Tensor.view, torch.Tensor.reshape, torch.Tensor.expand, torch.Tensor.new_empty, torch.Tensor.new_zeros,
)  # fmt: skip
_SIZED = (
    torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint, torch.arange,
    *_SIZED_METHODS,
)  # fmt: skip
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_UNKNOWN = ("empty", "rand", "normal", "bernoulli", "multinomial", "dropout", "resize")


class UnknownValue(NotImplementedError):
    """A program reads a value that only a kernel would compute."""


class TensorValues(TorchFunctionMode):  # type: ignore[misc]
    """While it is entered, inside ``without_memory``, small tensors keep their values.

    ``torch.device`` is not changed, and ``pin_memory`` makes a tensor of the host. With ``zeros``, a value that is read
    and not known is zero: an engine reads the tokens that its kernels have sampled.
    """

    def __init__(self, *, zeros: bool = False) -> None:
        super().__init__()
        self._zeros = zeros
        # The storages of values that were overwritten by unknown ones. They are kept, since addresses are reused.
        self._overwritten: dict[int, Any] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if "pin_memory" in kwargs:  # of the host, whatever the default device; without CUDA nothing can be pinned
            del kwargs["pin_memory"]
            kwargs["device"] = kwargs.get("device") or "cpu"
        if function is torch.device:
            return _plainly(function, args, kwargs)
        if function is torch.Tensor.pin_memory:
            return args[0]
        if isinstance(function, _OPERATORS) and str(function).partition(".")[0] not in ("aten", "prims"):
            return function(*args, **kwargs)  # an operator of a library: its result is not known
        if function in _SIZED:  # a size may be a tensor, whose value is read there
            owner = args[:1] if function in _SIZED_METHODS else ()
            args = (*owner, *self._with_sizes(args[len(owner) :]))
            kwargs = self._with_sizes(kwargs)
        tensors = tuple(_tensors((args, kwargs)))
        valued = all(self._known(tensor) is not None for tensor in tensors) and (bool(tensors) or function in _SOURCES)
        read = function in _READS or _to_cpu(function, args, kwargs)
        if tensors and read and (valued or (self._zeros and tensors[0].is_meta)):
            copied = _plainly(function, self._on_cpu(args), self._on_cpu(kwargs))
            return copied.clone() if isinstance(copied, torch.Tensor) else copied
        try:
            result = function(*args, **kwargs)
        except RuntimeError as error:
            if tensors and read and tensors[0].is_meta:
                name = getattr(function, "__name__", "item")
                raise UnknownValue(f"Tensor.{name} reads a value that a meta tensor lacks") from None
            # The size of the result of torch.nonzero and the like depends on values.
            if not isinstance(error, NotImplementedError) or not tensors or not (valued or self._zeros):
                raise
            return _with_values(_plainly(function, self._on_cpu(args), self._on_cpu(kwargs)))
        if valued:
            self._keep(function, args, kwargs, result)
        elif _writes(function, kwargs):
            self._forget(kwargs.get("out", args[0] if args else None))
        return result

    def _known(self, tensor: Any) -> Any:
        """The values of a tensor, as a tensor on the CPU; None if they are not known."""
        values = getattr(tensor, _VALUES, None) if tensor.is_meta else tensor
        if values is None or values.numel() > LIMIT or _storage(values) in self._overwritten:
            return None
        return values

    def _with_sizes(self, value: Any) -> Any:
        """An argument in which integers replace tensors of one element."""
        if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.is_floating_point():
            values = self._known(value)
            return value if values is None else int(values)
        if isinstance(value, dict):
            return {name: self._with_sizes(item) for name, item in value.items()}
        return tuple(map(self._with_sizes, value)) if type(value) in (tuple, list) else value

    def _on_cpu(self, value: Any) -> Any:
        """An argument for the same call on the CPU."""
        if isinstance(value, torch.Tensor):
            values = self._known(value)
            return values if values is not None or not value.is_meta else _zeros(value)
        if isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] in ("cuda", "meta")):
            return "cpu"
        if isinstance(value, dict):
            return {name: self._on_cpu(item) for name, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(map(self._on_cpu, value))
        return value

    def _keep(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Run the same call on the CPU, and keep the values beside its result."""
        results = [tensor for tensor in _tensors(result) if tensor.is_meta and tensor.numel() <= LIMIT]
        name = getattr(function, "__name__", "")
        unknown = function not in _SOURCES and any(word in name for word in _UNKNOWN)
        if unknown or not (results or _writes(function, kwargs)):
            return
        if function is torch.Tensor.cuda:
            function, args, kwargs = torch.Tensor.clone, args[:1], {}
        placed = {**self._on_cpu(kwargs), **({"device": "cpu"} if function in _SOURCES else {})}
        try:
            values = list(_tensors(_plainly(function, self._on_cpu(args), placed)))
        except Exception:  # the CPU does not support it: the values are not known
            return
        if [tensor.shape for tensor in values] == [tensor.shape for tensor in results]:
            copied = not all(tensor.is_meta for tensor in _tensors((args, kwargs)))
            for tensor, value in zip(results, values, strict=True):
                setattr(tensor, _VALUES, value.clone() if copied else value)

    def _forget(self, written: Any) -> None:
        for tensor in _tensors(written):
            values = getattr(tensor, _VALUES, None)
            if values is not None:
                self._overwritten[_storage(values)] = values.untyped_storage()


def _with_values(values: Any) -> Any:
    """Tensors without memory that have these values."""
    if isinstance(values, torch.Tensor):
        tensor = _plainly(torch.empty_like, (values,), {"device": "meta"})
        setattr(tensor, _VALUES, values)
        return tensor
    return type(values)(map(_with_values, values)) if isinstance(values, (tuple, list)) else values


def _plainly(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call outside of all modes."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return function(*args, **kwargs)


def _zeros(tensor: Any) -> Any:
    """Zeros of a tensor's shape on the CPU, which take no memory."""
    zero = _plainly(torch.zeros, ((),), {"dtype": tensor.dtype, "device": "cpu"})
    return _plainly(torch.Tensor.expand, (zero, tensor.shape), {})


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _storage(values: Any) -> int:
    return int(values.untyped_storage()._cdata)


def _to_cpu(function: Any, args: Any, kwargs: Any) -> bool:
    arguments = [*args[1:], *kwargs.values()]
    return function is torch.Tensor.to and any(
        str(argument) == "cpu" for argument in arguments if isinstance(argument, (str, torch.device))
    )


def _writes(function: Any, kwargs: Any) -> bool:
    """Whether a call writes into its first argument, or into ``out``."""
    name = getattr(function, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name == "__setitem__" or name.startswith("__i") or kwargs.get("out") is not None

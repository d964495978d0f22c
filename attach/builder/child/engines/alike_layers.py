"""Layers alike: of a model's layers that differ in their number and weights only, one runs, and stands for the others.

They request the same kernels, and tensors without memory have no values that could differ.
"""

from __future__ import annotations

from typing import Any

_NUMBERS = ("layer_idx", "layer_id", "layer_index", "layer_number", "idx")
_PLAIN = (bool, int, float, str, type(None))


def run_alike_once(model: Any) -> int:
    """Have layers return what the first one like them has returned; how many do.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3)))
    >>> run_alike_once(model)
    2
    """
    import torch

    replaced = 0
    for layers in [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]:
        first: dict[str, Any] = {}
        for number, layer in enumerate(layers):
            kind = kind_of(layer, number)
            if kind in first:
                layer.forward = first[kind].again
                replaced += 1
            else:
                first[kind] = _Returned(layer)
    return replaced


class _Returned:
    """What a layer has returned last."""

    def __init__(self, layer: Any) -> None:
        self._forward, self._returned = layer.forward, None
        layer.forward = self.first

    def first(self, *args: Any, **kwargs: Any) -> Any:
        self._returned = self._forward(*args, **kwargs)
        return self._returned

    def again(self, *args: Any, **kwargs: Any) -> Any:
        return self._returned


def kind_of(layer: Any, number: int) -> str:
    """All that a layer is made of, except its number: equal for layers alike."""
    parts = []
    for name, module in layer.named_modules():
        tensors = {
            key: (tuple(t.shape), str(t.dtype))
            for key, t in (*module._parameters.items(), *module._buffers.items())
            if t is not None
        }
        parts.append(
            (
                name,
                type(module).__qualname__,
                tensors,
                _values(module, number),
                _values(getattr(module, "impl", None), number),
            )
        )
    return repr(parts)


def _values(owner: Any, number: int) -> dict[str, Any]:
    """The plain attributes of an object; texts without the number of the layer."""
    values = getattr(owner, "__dict__", {}).items()
    return {
        name: value.replace(f".{number}.", ".#.") if isinstance(value, str) else value
        for name, value in values
        if name not in _NUMBERS
        and (isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(v, _PLAIN) for v in value)))
    }

"""Of layers that are alike, one runs."""

from __future__ import annotations

from typing import Any

import torch

from precast.attach.builder.child.engines.alike_layers import run_alike_once


class Layer(torch.nn.Module):
    def __init__(self, number: int, window: int) -> None:
        super().__init__()
        self.layer_idx, self.prefix, self.window = number, f"model.layers.{number}.attention", window
        self.weight = torch.nn.Parameter(torch.zeros(4, device="meta"))
        self.ran = 0

    def forward(self, x: Any) -> Any:
        self.ran += 1
        return x * self.weight


def test_one_of_each_kind_runs() -> None:
    layers = torch.nn.ModuleList(Layer(number, window) for number, window in enumerate((0, 0, 8, 0, 8)))
    model: Any = torch.nn.Sequential(layers)
    assert run_alike_once(model) == 3
    x = torch.zeros(2, 4, device="meta")
    for layer in layers:
        x = layer(x)
    assert [layer.ran for layer in layers] == [1, 0, 1, 0, 0] and x.shape == (2, 4)


def test_another_shape_is_another_kind() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(4, n, device="meta") for n in (4, 8))
    assert run_alike_once(torch.nn.Sequential(layers)) == 0

"""Row kernels: what a table of arguments gives, and what it leaves to the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.row_kernel import Constant, RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config

MATRIX = ("rows", "hidden")
CONFIG: Config = {"dtype": "bfloat16", "hidden": 16, "weight_dtype": None, "bias": False}
PROBLEM = {"rows": 3, "padding": 8, "blocks": 2}


def prepare(config: Any, inputs: dict[str, Any], seed: int) -> None:
    inputs["index"].fill_(seed)


KERNEL = RowKernel(
    op="sum",
    arguments=(
        Tensor("x", MATRIX),
        Tensor("weight", ("hidden",), "weight_dtype"),
        Tensor("bias", ("hidden",), "float32", when="bias"),
        Tensor("residual", MATRIX, role="in_out"),
        Tensor("partial", ("blocks", "hidden"), "float32", role="out"),
        Tensor("index", ("rows",), "int64"),
        Tensor("scale", (1,), "float32"),
        Constant("rows", "rows"),
        Constant("mean", None),
        Constant("eps", 1e-6),
    ),
    problems=lambda config: row_problems(16, pad=8),
    reference=lambda config, inputs: {},
    prepare=prepare,
    flops=3,
    names={"mX": "x"},
)


def test_every_argument_is_made_in_call_order() -> None:
    made = KERNEL.inputs(CONFIG, PROBLEM, device="cpu", seed=5)
    assert list(made) == [argument.name for argument in KERNEL.arguments]
    assert (made["rows"], made["mean"], made["eps"], made["bias"]) == (3, None, 1e-6, None)
    shapes = {name: tuple(value.shape) for name, value in made.items() if isinstance(value, torch.Tensor)}
    assert shapes == {
        "x": (3, 16), "weight": (16,), "residual": (3, 16), "partial": (2, 16), "index": (3,), "scale": (1,),
    }  # fmt: skip
    assert made["weight"].dtype == torch.bfloat16, "None means the dtype of the matrix"
    assert made["index"].tolist() == [5, 5, 5], "prepare sets what random values do not do for"


def test_only_matrices_of_rows_are_padded() -> None:
    made = KERNEL.inputs(CONFIG, PROBLEM, device="cpu", seed=0)
    assert made["x"].stride() == made["residual"].stride() == (24, 1)
    assert made["partial"].is_contiguous()


def test_inputs_differ_by_argument_and_by_seed() -> None:
    one, other, again = (KERNEL.inputs(CONFIG, PROBLEM, device="cpu", seed=seed) for seed in (0, 100, 0))
    assert not torch.equal(one["x"], one["residual"])
    assert not torch.equal(one["x"], other["x"])
    assert torch.equal(one["x"], again["x"])


@pytest.mark.parametrize(("bias", "extra"), [(False, 0), (True, 16 * 4)])
def test_cost_counts_each_tensor_once_and_what_is_read_and_written_twice(bias: bool, extra: int) -> None:
    cost = KERNEL.cost({**CONFIG, "bias": bias}, PROBLEM)
    matrix, weight, partial, index, scale = 3 * 16 * 2, 16 * 2, 2 * 16 * 4, 3 * 8, 4
    assert cost.bytes == matrix + weight + 2 * matrix + partial + index + scale + extra
    assert cost.flops == 3 * 3 * 16


def test_the_declaration_has_what_the_table_says() -> None:
    @replace(KERNEL, op="sum.other", targets=("sm_90+",))
    def other(dtype: str, hidden: int) -> None: ...

    declared = declaration_of(other)
    assert (declared.op, declared.targets) == ("sum.other", ("sm_90+",))
    assert (declared.outputs, declared.in_place) == (("residual", "partial"), ("residual",))
    assert declared.arguments == {"mX": "x"}
    assert declared.cost is not None and declared.cost(CONFIG, PROBLEM) == KERNEL.cost(CONFIG, PROBLEM)


def test_the_last_problem_is_large_and_the_others_cover_tiles_and_padding() -> None:
    *small, large = row_problems(4096, pad=8, largest=1 << 20)
    assert large == {"rows": 256, "padding": 0}
    assert {"rows": 129, "padding": 8} in small and {"rows": 1, "padding": 0} in small

"""Special values stand in every floating type, in any layout, and in no other."""

from __future__ import annotations

import pytest
import torch

from precast.kernels.authoring.declare import SPECIAL_VALUES
from precast.measure.checks.scenarios import with_special

TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", SPECIAL_VALUES)
def test_a_tensor_with_padded_rows(kind: str, dtype: torch.dtype) -> None:
    x = torch.ones((3, 8), dtype=dtype)[:, :5]
    found = with_special(kind, {"x": x})["x"]
    values = found.double()
    assert found.stride() == x.stride() and x.double().eq(1).all(), "the original is as it was"
    if kind == "zero":
        assert values.eq(0).all()
    elif kind == "denormal":
        assert (values.abs() < torch.finfo(dtype).smallest_normal).all() and values.unique().numel() == 7
    elif kind == "nan":
        assert values.isnan().sum() == 3 and values[0, 0].isnan() and values[2, 4].isnan()
    else:
        assert values.isinf().sum() == (0 if dtype == torch.float8_e4m3fn else 3)


@pytest.mark.parametrize("kind", SPECIAL_VALUES)
def test_what_has_no_such_values_stays(kind: str) -> None:
    tensors = {"n": torch.arange(4), "empty": torch.empty(0), "codes": torch.ones(3, dtype=torch.uint8)}
    found = with_special(kind, tensors)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("kind", SPECIAL_VALUES)
def test_one_value_that_is_shown_as_many(kind: str) -> None:
    found = with_special(kind, {"x": torch.ones(1).expand(4)})["x"]
    assert found.stride() == (0,) and not found.eq(1).any()

"""Kernels as PyTorch operators on a device: compiled whole, in graphs, checked by torch."""

from __future__ import annotations

from typing import Any

import pytest

from precast import loader


def norm(hidden: int = 4096, **tuned: int) -> Any:
    return loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": hidden, **tuned})


def inputs(rows: int = 64, hidden: int = 4096) -> tuple[Any, Any, Any]:
    import torch

    x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
    return x, torch.randn(hidden, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)


def reference(x: Any, weight: Any) -> Any:
    import torch

    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), 1e-6)


def test_it_is_an_operator() -> None:
    import torch

    operator: Any = loader.torch_op(norm())
    assert "Tensor(a2!) out" in str(operator._schema)
    x, weight, out = inputs()
    operator(x, weight, out, 1e-6)
    torch.testing.assert_close(out.float(), reference(x, weight), rtol=1.6e-2, atol=1.6e-2)
    with pytest.raises(ValueError, match="argument #1"):
        operator(x, weight[:-1], out, 1e-6)


def test_torch_checks_it() -> None:
    import torch

    done = torch.library.opcheck(loader.torch_op(norm()), (*inputs(), 1e-6))
    assert set(done.values()) == {"SUCCESS"}, done


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch makes one to set up its memory
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")  # the default backend uses what torch deprecates
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_torch_compiles_it_whole(mode: str) -> None:
    """With what is around it, by the default backend; and in the graphs that it makes itself."""
    import torch

    operator = loader.torch_op(norm())

    def program(x: Any, weight: Any) -> Any:
        out = torch.empty_like(x)
        operator(x * 2, weight, out, 1e-6)
        return torch.relu(out) + 1

    compiled: Any = torch.compile(program, fullgraph=True, mode=mode)
    for rows in (64, 64, 64, 32):
        x, weight, _ = inputs(rows)
        expected = torch.relu(reference(x * 2, weight)) + 1
        torch.testing.assert_close(compiled(x, weight).float(), expected, rtol=2e-2, atol=2e-2)


def test_it_runs_in_a_graph() -> None:
    import torch

    operator = loader.torch_op(norm())
    x, weight, out = inputs()
    operator(x, weight, out, 1e-6)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        operator(x, weight, out, 1e-6)
    x.normal_()
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out.float(), reference(x, weight), rtol=1.6e-2, atol=1.6e-2)


def test_two_versions_side_by_side() -> None:
    import torch

    one, other = loader.torch_op(norm(threads=128)), loader.torch_op(norm(threads=256))
    assert one is not other
    x, weight, out = inputs()
    again = torch.empty_like(out)
    one(x, weight, out, 1e-6)
    other(x, weight, again, 1e-6)
    torch.testing.assert_close(out, again, rtol=1.6e-2, atol=1.6e-2)

"""FlashInfer's adapter: what it relies on, what its references say, and that every op compiles for its targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.compile.worker import Worker
from precast.build.gpu.profile import Profiles
from precast.build.ipc.message import Message
from precast.kernels.adapters.flashinfer import blocks, library
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import find as find_op
from precast.kernels.authoring.registry import load
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target

torch = pytest.importorskip("torch")
installed = pytest.mark.skipif(
    library.FLASHINFER.obstacle() is not None, reason=f"the library is not there: {library.FLASHINFER.obstacle()}"
)

NORM = {"dtype": "bfloat16", "hidden": 2880}
ROWS = {"dtype": "bfloat16", "columns": 2880}
EXPERTS = {"dtype": "bfloat16", "top_k": 4, "tile_rows": 64}
HEADS = {"query_heads": 2, "value_heads": 4}
# Every op, a config of it, and the targets that can run it.
CASES: list[tuple[str, dict[str, Any], str]] = [
    *(
        (op, {**NORM, **more}, target)
        for target in ("sm_90a", "sm_100a")
        for op, more in (
            ("flashinfer.rmsnorm", {}),
            ("flashinfer.rmsnorm", {"strided": True, "weight_bias": 1.0, "pdl": True}),
            ("flashinfer.fused_add_rmsnorm", {}),
            ("flashinfer.rmsnorm_fp8", {}),
            ("flashinfer.fused_add_rmsnorm_fp8", {}),
            ("flashinfer.layernorm", {}),
        )
    ),
    *(
        ("flashinfer.mxfp8_quantize", {**ROWS, "layout": layout}, target)
        for target in ("sm_90a", "sm_100a")
        for layout in ("128x4", "linear")
    ),
    *(("flashinfer.nvfp4_quantize", {**ROWS, "layout": layout}, "sm_100a") for layout in ("128x4", "linear")),
    *(
        ("flashinfer.rmsnorm_fp4", {**NORM, "format": format_, "layout": layout}, "sm_100a")
        for format_ in ("nvfp4", "mxfp4")
        for layout in ("128x4", "linear")
    ),
    ("flashinfer.add_rmsnorm_fp4", {**NORM, "layout": "linear"}, "sm_100a"),
    ("flashinfer.add_rmsnorm_fp4", {**NORM, "norm": True}, "sm_100a"),
    ("flashinfer.mm_fp4", {"out_dtype": "bfloat16"}, "sm_100a"),
    ("flashinfer.moe_gather_gemm", EXPERTS, "sm_90a"),
    ("flashinfer.moe_gemm_finalize", {**EXPERTS, "paired": True, "along_rows": True}, "sm_90a"),
    *(("flashinfer.gdn_decode", HEADS, target) for target in ("sm_90a", "sm_100a")),
    ("flashinfer.gdn_prefill", {"dtype": "bfloat16", "initial": True, "indexed": True}, "sm_90a"),
    ("flashinfer.gdn_prefill", {"dtype": "float16"}, "sm_90a"),
    *(
        (
            "flashinfer.gdn_prefill_blackwell",
            {**HEADS, "dtype": "bfloat16", "initial": True, "indexed": indexed},
            "sm_100a",
        )
        for indexed in (False, True)
    ),
    *(
        ("flashinfer.kda_decode", {"gate": gate, "indexed": indexed, "head_dim": dim}, target)
        for gate, indexed, dim, target in (("log", False, 64, "sm_90a"), ("softplus", True, 128, "sm_100a"))
    ),
    (
        "flashinfer.mm_fp4",
        {"out_dtype": "float16", "format": "mxfp4", "tile": (256, 128), "cluster": (2, 1)},
        "sm_100a",
    ),
]


# Those that no GPU was there to run: they compile, and have no reference.
COMPILED: list[tuple[str, dict[str, Any], str]] = [
    ("flashinfer.grouped_gemm_fp8", {"n": 256, "k": 512, "groups": 4}, "sm_100a"),
    ("flashinfer.all_reduce_publish", {"hidden": 7168, "ranks": 4, "rank": 3}, "sm_100a"),
    ("flashinfer.all_reduce_norm", {"hidden": 7168, "ranks": 4}, "sm_100a"),
    ("flashinfer.all_reduce_two_shot", {"hidden": 7168, "ranks": 4, "rank": 3}, "sm_100a"),
    ("flashinfer.all_reduce_persistent", {"hidden": 7168, "ranks": 8, "rank": 7, "threads": 448}, "sm_100a"),
    ("flashinfer.finalize_publish", {"hidden": 7168, "ranks": 4, "rank": 3, "top_k": 8}, "sm_100a"),
    ("flashinfer.finalize_norm_publish", {"hidden": 7168, "ranks": 4, "rank": 3, "top_k": 8}, "sm_100a"),
    ("flashinfer.all_gather_dual_norm", {"hidden": 7168, "ranks": 4}, "sm_100a"),
    ("flashinfer.all_gather_norm_fp4", {"hidden": 7168, "ranks": 4}, "sm_100a"),
    ("flashinfer.gemm_all_reduce", {"dtype": "bfloat16", "ranks": 2, "rank": 1}, "sm_100a"),
]


def declaration(op: str) -> Declaration:
    """What the adapter says of an op."""
    return declaration_of(load(find_op(op)))


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, Worker]]:
    """One worker a target, started when it is first needed."""
    found: dict[str, Worker] = {}
    yield found
    for worker in found.values():
        worker.kill()


def compiled_signature(workers: dict[str, Worker], op: str, config: dict[str, Any], target: str) -> Signature:
    """What the object takes that a worker makes of an op."""
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    assert declared.refusal(full, Target.parse(target)) is None
    if target not in workers:
        workers[target] = Worker(Target.parse(target), {}, [], Profiles().of(Target.parse(target)))
    request = {"source": str(find_op(op)), "config": dict(full), "symbols": ["entry"], "seconds": 300}
    workers[target].send(Message(request))
    reply = workers[target].receive(300).header
    assert "error" not in reply, f"{reply['error']}\n{reply['traceback']}"
    assert reply["assumed"].get("compute_capability_major", Target.parse(target).major) == Target.parse(target).major
    (signature,) = (Signature.parse(s) for s in reply["signatures"])
    return signature


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("op", "config", "target"), CASES)
def test_it_compiles_without_a_gpu_and_takes_what_is_said(
    workers: dict[str, Worker], op: str, config: dict[str, Any], target: str
) -> None:
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    signature = compiled_signature(workers, op, config, target)
    assert declared.problems and declared.inputs
    values = declared.inputs(full, declared.problems(full)[0], device="cpu", seed=0)
    passed = [argument for argument in signature.passed if argument.kind != "stream"]
    assert [a.name for a in passed] == list(values)
    for argument in passed:
        value = values[argument.name]
        if argument.kind == "pointer" and isinstance(value, torch.Tensor):
            assert argument.dtype == str(value.dtype).removeprefix("torch."), argument
        if argument.kind == "tensor":
            assert argument.dtype == str(value.dtype).removeprefix("torch."), argument
            assert len(argument.shape) == value.dim(), argument


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("op", "config", "target"), COMPILED)
def test_what_cannot_be_verified_here_compiles(
    workers: dict[str, Worker], op: str, config: dict[str, Any], target: str
) -> None:
    assert compiled_signature(workers, op, config, target).passed


CHANGED = """
def _get_compiled_rmsnorm_kernel(dtype, hidden, weight_bias, enable_pdl, sm_version, contiguous=True):
    raise AssertionError("called with a guess")
"""


@pytest.mark.slow
@installed
def test_a_change_upstream_is_named(tmp_path: Path) -> None:
    """A library of the right version whose function takes other parameters than the adapter gives."""
    package = tmp_path / "flashinfer" / "norm" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "rmsnorm.py").write_text(CHANGED)
    target = Target.parse("sm_90a")
    worker = Worker(target, {}, [tmp_path], Profiles().of(target))
    try:
        config = complete(declaration("flashinfer.rmsnorm").keys, NORM, op="flashinfer.rmsnorm")
        request = {
            "source": str(find_op("flashinfer.rmsnorm")),
            "config": dict(config),
            "symbols": ["entry"],
            "seconds": 300,
        }
        worker.send(Message(request))
        error = worker.receive(300).header["error"]
    finally:
        worker.kill()
    assert "flashinfer.norm.kernels.rmsnorm:_get_compiled_rmsnorm_kernel" in error
    assert "it takes (dtype, hidden, weight_bias, enable_pdl, sm_version, contiguous)" in error
    assert "pip install 'flashinfer-python==0.7.2.post1', or correct the adapter" in error


@pytest.mark.parametrize("op", sorted({op for op, _, _ in CASES}))
def test_every_op_can_be_verified_and_has_a_cost(op: str) -> None:
    declared = declaration(op)
    assert declared.verifiable and declared.cost


@pytest.mark.parametrize(("op", "config", "target"), CASES)
def test_inputs_and_references_agree(op: str, config: dict[str, Any], target: str) -> None:
    """A reference gives every output, in its shape; poison in the outputs does not reach it."""
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    assert declared.problems and declared.inputs and declared.reference
    values = declared.inputs(full, declared.problems(full)[1], device="cpu", seed=3)
    expected = declared.reference(full, values)
    for name in declared.outputs:
        assert expected[name].shape == values[name].shape, name
        assert not expected[name].double().isnan().any(), name


@pytest.mark.parametrize("scale_dtype", ["float8_e4m3fn", "float8_e8m0fnu"])
@pytest.mark.parametrize("error", [-0.015, 0.015])
def test_the_samples_are_away_from_every_edge(scale_dtype: str, error: float) -> None:
    block = 16 if scale_dtype == "float8_e4m3fn" else 32
    values = blocks.fp4_values(64, 256, block, scale_dtype, device="cpu", seed=1)
    exact = blocks.quantize_fp4(values, block=block, scale_dtype=scale_dtype, global_scale=1.0)
    moved = blocks.quantize_fp4(values * (1 + error), block=block, scale_dtype=scale_dtype, global_scale=1.0)
    assert all(torch.equal(a, b) for a, b in zip(exact, moved, strict=True))
    assert {int(c) for c in (exact[0] & 15).unique()} >= {1, 2, 3, 4, 5, 6, 7, 9, 15}


def test_mxfp8_values_are_away_from_every_edge() -> None:
    values = blocks.mxfp8_values(32, 256, device="cpu", seed=1)
    exact, moved = blocks.quantize_mxfp8(values), blocks.quantize_mxfp8(values * (1 + 2.0**-8))
    assert all(torch.equal(a, b) for a, b in zip(exact, moved, strict=True))


def test_quantising_and_reading_back_loses_at_most_half_a_step() -> None:
    values = torch.randn(8, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    codes, scales = blocks.quantize_fp4(values, block=16, scale_dtype="float8_e4m3fn", global_scale=100.0)
    steps = scales.view(torch.float8_e4m3fn).double().repeat_interleave(16, dim=1) / 100.0
    error = (blocks.decode_fp4(codes) * steps - values).abs()
    assert bool((error <= steps * 1.4).all())  # the widest step is 2, and a scale rounds by a sixteenth
    assert float(error.mean()) < 0.15


def test_swizzling_has_an_inverse_and_is_as_tensor_cores_read_it() -> None:
    scales = torch.arange(200 * 6, dtype=torch.int32).reshape(200, 6)
    flat = blocks.swizzled(scales)
    assert flat.numel() == 256 * 8
    assert torch.equal(blocks.unswizzled(flat, 200, 6), scales)
    for row, column in ((0, 0), (1, 0), (32, 0), (33, 3), (127, 2), (128, 5), (199, 4)):
        place = (row // 128 * 2 + column // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4
        assert flat[place] == scales[row, column]


@installed
@pytest.mark.parametrize(
    ("op", "config", "target", "said"),
    [
        ("flashinfer.rmsnorm", {"dtype": "float32", "hidden": 4096}, "sm_90a", "use one of float16, bfloat16"),
        ("flashinfer.rmsnorm", {"dtype": "bfloat16", "hidden": 1001}, "sm_90a", "use 1000 or 1008"),
        ("flashinfer.rmsnorm_fp8", {"dtype": "bfloat16", "hidden": 4096}, "sm_80", "build it for another target"),
        ("flashinfer.nvfp4_quantize", {"dtype": "bfloat16", "columns": 4096}, "sm_90a", "for another target"),
        ("flashinfer.mxfp8_quantize", {"dtype": "bfloat16", "columns": 4112}, "sm_90a", "use 4096 or 4128"),
        ("flashinfer.mm_fp4", {"out_dtype": "float32"}, "sm_100a", "use one of float16, bfloat16"),
        ("flashinfer.mm_fp4", {"out_dtype": "float16", "tile": (256, 128)}, "sm_100a", "use a cluster of 2 or 4"),
        ("flashinfer.moe_gather_gemm", {**EXPERTS, "tile_columns": 96}, "sm_90a", "use a multiple of 64 up to 256"),
        ("flashinfer.moe_gather_gemm", {**EXPERTS, "tile_rows": 256}, "sm_90a", "use 64 or 128"),
        ("flashinfer.moe_gemm_finalize", EXPERTS, "sm_100a", "build it for another target"),
        ("flashinfer.gdn_decode", {"query_heads": 3, "value_heads": 4}, "sm_90a", "which 3 does not divide"),
        ("flashinfer.gdn_prefill", {"dtype": "float32"}, "sm_90a", "use one of float16, bfloat16"),
        ("flashinfer.kda_decode", {"rows": 12}, "sm_90a", "use 8, 16 or 32"),
        ("flashinfer.kda_decode", {"head_dim": 96}, "sm_90a", "use 64 or 128"),
        ("flashinfer.grouped_gemm_fp8", {"n": 256, "k": 500, "groups": 4}, "sm_100a", "use 384 or 512"),
        ("flashinfer.all_reduce_norm", {"hidden": 7168, "ranks": 3}, "sm_100a", "use 2, 4 or 8"),
        ("flashinfer.all_gather_norm_fp4", {"hidden": 7000, "ranks": 4}, "sm_100a", "use 6144 or 7168"),
        ("flashinfer.all_reduce_persistent", {"hidden": 7168, "ranks": 2, "rank": 0}, "sm_100a", "use threads 448"),
        ("flashinfer.gemm_all_reduce", {"dtype": "bfloat16", "ranks": 2, "rank": 2}, "sm_100a", "from 0 to 1"),
    ],
)
def test_a_mistake_gets_a_reason_before_anything_is_compiled(
    op: str, config: dict[str, Any], target: str, said: str
) -> None:
    declared = declaration(op)
    reason = declared.refusal(complete(declared.keys, config, op=op), Target.parse(target))
    assert reason is not None and said in reason

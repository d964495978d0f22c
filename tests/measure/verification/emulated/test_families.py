"""A sample of each family of kernels that ship, built and emulated: they are right.

Where the code of two targets is the same but for its name, a kernel is for one of them in turn.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.builds import kept_store, precast

pytestmark = [pytest.mark.slow]

SAMPLE = """
version: 1
name: families
targets: [sm_90a]
kernels:
  - {kernel: scale, config: {dtype: bfloat16}}
  - {kernel: rmsnorm, config: {dtype: bfloat16, hidden: 4096}, tuned: {threads: [128]}, targets: [sm_100a]}
  - {kernel: softmax, config: {dtype: bfloat16, width: 32000}, tuned: {threads: [256], cluster: [4]}}
  - {kernel: reduce, config: {dtype: bfloat16, width: 1024, function: argmax}, targets: [sm_100a]}
  - {kernel: quantize_fp8, config: {dtype: bfloat16, width: 1024, block: token}}
  - {kernel: moe_sort, config: {experts: 32}, tuned: {cluster: [1]}, targets: [sm_100a]}
  - {kernel: rotary_paged, config: {dtype: bfloat16, q_heads: 32, kv_heads: 8, head_dim: 128, page: 16}}
  - {kernel: sgemm, config: {align: 16}, targets: [sm_100a]}
  - kernel: gemm
    config: {dtype: bfloat16, out_dtype: bfloat16}
    tuned: {tile: [[128, 128]], cluster: [[1, 1]]}
  - kernel: gemm # also without any k
    targets: [sm_100a]
    config: {dtype: bfloat16, out_dtype: bfloat16}
    tuned: {tile: [[128, 128]], cluster: [[1, 1]]}
  - kernel: gemm # few rows
    targets: [sm_100a]
    config: {dtype: bfloat16, out_dtype: bfloat16}
    tuned: {tile: [[64, 8]]}
  - kernel: gemm # what the epilogue gives of nothing, and what it rounds on the way
    targets: [sm_100a]
    config: {dtype: bfloat16, out_dtype: bfloat16, epilogue: "relu(alpha * accum + beta * C + bias)"}
  - kernel: gemm # clusters of two sizes, and pairs of blocks
    targets: [sm_100a]
    config: {dtype: bfloat16, out_dtype: bfloat16}
    tuned:
      {tile: [[256, 128]], cluster: [[4, 1]], fallback_cluster: [[2, 1]], scheduler: [dynamic, static], two_cta: true}
  - {kernel: fused_add_rmsnorm, config: {dtype: bfloat16, hidden: 128}} # several rows to a block
  - {kernel: rmsnorm_fp8, config: {dtype: bfloat16, hidden: 128, residual: true}, targets: [sm_100a]}
  - {kernel: mla_decode, config: {dtype: bfloat16, page: 16}, tuned: {keys: [64]}}
  - {kernel: attention, config: {dtype: bfloat16, head_dim: 128, heads_per_kv: 4, causal: true}, targets: [sm_100a]}
  - {kernel: flashinfer.rmsnorm, config: {dtype: bfloat16, hidden: 4096}}
"""


def test_a_sample_of_each_family_is_right(tmp_path: Path) -> None:
    (tmp_path / "families.yaml").write_text(SAMPLE)
    cache, store = tmp_path / "cache", kept_store()
    done = precast(store, "build", tmp_path / "families.yaml", "-o", cache, "-j", 1)
    assert done.returncode == 0, done.stderr
    done = precast(store, "verify", cache, "--emulate", "--json", "--most", 1 << 16, "-j", 2)
    report = json.loads(done.stdout)
    assert report["smallest"] is None and not report["refused"] and not report["left_out"], report["smallest"]
    entries = [entry for keys in report["evidence"].values() for entry in keys.values()]
    assert all(entry["problems"] for entry in entries) and len(report["evidence"]) == 14
    assert done.returncode == 0

"""What other systems do, and the ops and commands here that do it: the last section of docs/kernels.md."""

from __future__ import annotations

from dataclasses import dataclass

_EXAMPLES = "precast build manifests/cutlass-examples.yaml -o cache"
_BLACKWELL = "cutlass.blackwell."
_HOPPER = "cutlass.hopper."


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that a system does: the command that shows it here, and the ops, if it is a matter of ops."""

    what: str
    command: str
    ops: tuple[str, ...] = ()


LIBRARY = (
    Feature(
        "gated activations, and as float8 with scales of blocks",
        "precast verify cache --op silu_and_mul_fp8",
        ("act_and_mul", "silu_and_mul_fp8"),
    ),
    Feature(
        "weighted sums over experts",
        "precast verify cache --op moe_finalize",
        ("moe_finalize", "flashinfer.moe_gemm_finalize"),
    ),
    Feature(
        "persistent products of groups",
        "precast verify cache --op grouped_gemm_masked",
        ("grouped_gemm_masked", "grouped_gemm_contiguous", "flashinfer.moe_gather_gemm", "gemm_grouped"),
    ),
    Feature("a whole mixture of experts", "python examples/moe.py", ("moe_sort", "moe_permute", "moe_finalize")),
    Feature("sums over the GPUs of a host", "python examples/all_reduce.py", ("all_reduce",)),
    Feature("a cached function that compiles", "precast build mine.yaml -o cache"),
    Feature("public functions, called unchanged", "python -m precast.loader.attach --mode frozen program.py"),
)
SOURCE_TO_PACKAGE = (
    Feature("`scale(x, factor)` of three dtypes", "precast verify cache --op scale", ("scale",)),
    Feature("guards by compute capability", "precast plan manifests/default.yaml"),
    Feature("a list that is built ahead of time", "precast build manifests/default.yaml -o cache"),
    Feature("a package", "precast wheel cache -o dist"),
    Feature("tests of many sizes, types and streams", "precast verify cache --junit report.xml"),
    Feature("benchmarks", "precast bench cache --svg roofline.svg"),
)
GUIDE = (
    Feature("element-wise kernels", _EXAMPLES, ("cutlass.elementwise_add", "scale", "add", "apply")),
    Feature(
        "products, from scalar to tensor cores of each generation",
        _EXAMPLES,
        (
            "sgemm",
            "gemm_sm80",
            "cutlass.sgemm",
            "cutlass.tensorop_gemm",
            f"{_HOPPER}dense_gemm",
            f"{_HOPPER}dense_gemm_persistent",
            f"{_BLACKWELL}dense_gemm_persistent",
        ),
    ),
    Feature(
        "norms and reductions",
        "precast build manifests/rows.yaml -o cache",
        ("layernorm", "softmax", "reduce", f"{_HOPPER}cta_norm"),
    ),
    Feature(
        "attention",
        _EXAMPLES,
        ("cutlass.flash_attention_v2", "cutlass.hstu_attention", f"{_HOPPER}fmha", f"{_BLACKWELL}fmha"),
    ),
    Feature(
        "grouped, mixed and block-scaled products, Mamba2",
        _EXAMPLES,
        (
            f"{_HOPPER}grouped_gemm",
            f"{_BLACKWELL}mixed_input_gemm",
            f"{_BLACKWELL}blockscaled_gemm",
            f"{_BLACKWELL}mamba2_ssd",
        ),
    ),
    Feature(
        "files with `kernel_fn`, `reference_fn`, `get_inputs`",
        "precast export cache KEY -o folder --script",
        ("rmsnorm",),
    ),
)
RUNTIME = (
    Feature(
        "decoding over a latent cache",
        "precast verify cache --op mla_decode",
        ("mla_decode", "flashinfer.mla_decode", f"{_BLACKWELL}mla_decode"),
    ),
    Feature(
        "tilings, of which the fastest is chosen",
        "precast tune measure manifests/mla.yaml --cache cache",
        ("mla_decode", "gemm"),
    ),
    Feature("tilings that do not fit are refused, with a reason", "precast plan manifests/gemm.yaml"),
    Feature("which GPU runs what", "precast doctor"),
)
INTERFACE = (
    Feature(
        "operators by what they compute",
        "precast verify cache --op gemm",
        ("gemm", "gemm_blockscaled", "gemm_grouped"),
    ),
    Feature(
        "an operator of one's own, found through the interface, in a manifest",
        "precast build manifests/matrix.yaml -o cache",
        ("gemm_f64", "gemm_f64.operator"),
    ),
    Feature("the operators that a program asks for", "precast record -o recorded.yaml -- python program.py"),
)
SYSTEMS = (
    ("A library of kernels in the CuTe DSL, as FlashInfer: kernel class, cache, public function", LIBRARY),
    ("A kernel from its source to a package, as FlashInfer adds one", SOURCE_TO_PACKAGE),
    ("Kernels by a guide to the CuTe DSL, as NVIDIA's", GUIDE),
    ("A runtime with tilings, validation and tuning, around latent attention", RUNTIME),
    ("An interface for one's own kernels, as CUTLASS's: implementation, metadata, discovery", INTERFACE),
)
"""Each system, and what it does."""

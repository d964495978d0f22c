"""``quack.rmsnorm`` and ``quack.layernorm``: normalise the rows of a matrix, as a model's forward pass does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.row_kernel import Constant, RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

ARGUMENTS = {
    "mX": "x", "mW": "weight", "mB": "bias", "mRes": "residual", "mO": "out", "mResO": "residual_out",
    "mRstd": "rstd", "mMean": "mean",
}  # fmt: skip
_EPS = 1e-6
_MATRIX = ("rows", "hidden")
_LAUNCH = ("threads", "row_threads", "cluster", "reload")
_ROW_THREADS = (8, 16, 32, 64, 128, 256)


def weight_dtype(config: Config) -> str:
    """The dtype of the weights: the matrix's own, where the config names none."""
    return str(config["weight_dtype"] or config["dtype"])


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return matrix_refusal(config) or launch_refusal(config)


def matrix_refusal(config: Config) -> str | None:
    """Why rows and weights of a config are not supported, or None."""
    reason = library.refusal(config, "hidden")
    if reason is None and config["weight_dtype"] is not None:
        reason = configs.unsupported_dtype(config, "weight_dtype")
    return reason


def launch_refusal(config: Config, keys: Sequence[str] = _LAUNCH) -> str | None:
    """Why the combination of tuned keys is not supported, or None.

    >>> launch_refusal({"hidden": 4096, "threads": 128, "row_threads": 256, "cluster": 1, "reload": "no"})
    'row_threads is 256, and threads 128: use as many or fewer of 8, 16, 32, 64, 128, 256 to a row'
    """
    given = [config.get(key) is not None for key in keys]
    if not any(given):
        return None
    if not all(given):
        return f"{', '.join(keys[:-1])} and {keys[-1]} are one choice: give all, or none for the library's own"
    return threads_refusal(config)


def threads_refusal(config: Config) -> str | None:
    """Why a row cannot be split among so many threads and blocks, or None."""
    threads, rows, cluster = (configs.integer(config, key) for key in ("threads", "row_threads", "cluster"))
    if threads not in (128, 256):
        return f"threads is {threads}: use 128 or 256"
    if rows not in _ROW_THREADS or rows > threads:
        among = ", ".join(map(str, _ROW_THREADS))
        return f"row_threads is {rows}, and threads {threads}: use as many or fewer of {among} to a row"
    if cluster not in (1, 2, 4, 8, 16) or rows * cluster > configs.integer(config, "hidden"):
        return f"cluster is {cluster}: use 1, 2, 4, 8 or 16, and no more threads than a row has columns"
    return None


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    hidden = configs.integer(config, "hidden")
    return row_problems(hidden, pad=library.step(hidden, str(config["dtype"]), weight_dtype(config)))


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64; a residual is added first, and the sum is normalised before it is rounded."""
    x = inputs["x"].double()
    if inputs["residual"] is not None:
        x = x + inputs["residual"].double()
    mean: Any = x.mean(dim=-1, keepdim=True) if "bias" in config else 0.0
    rstd = ((x - mean).square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt()
    weight = inputs["weight"].double() + float(str(config.get("weight_offset", 0.0)))
    out = (x - mean) * rstd * weight
    if inputs["bias"] is not None:
        out = out + inputs["bias"].double()
    results = {"out": out, "residual_out": x, "rstd": rstd.squeeze(-1)}
    return {**results, "mean": mean.squeeze(-1)} if "bias" in config else results


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm, where it does the same: it keeps no statistics, and adds nothing to the weight."""
    from torch.nn.functional import layer_norm, rms_norm

    x, weight, eps, residual = inputs["x"], inputs["weight"], inputs["eps"], inputs["residual"]
    if config["statistics"] or config.get("weight_offset"):
        return {}
    if "bias" in config:
        bias = inputs["bias"]
        return {"torch layer_norm": lambda: layer_norm(x, weight.shape, weight, bias, eps)}
    if residual is not None:
        return {"torch add, rms_norm": lambda: rms_norm(x + residual, weight.shape, weight, eps)}
    return {"torch rms_norm": lambda: rms_norm(x, weight.shape, weight, eps)}


def tolerance(config: Config) -> Tolerance:
    """Sums in float32 and an approximate root, then the rounding to the stored dtype.

    Subtracting a mean or adding a bias may cancel, which leaves the error of the larger terms.
    """
    stored = rounding.tolerance(str(config["dtype"]), 8e-6)
    return Tolerance(rtol=stored.rtol, atol=4e-6) if "bias" in config or config.get("residual") else stored


def compile_forward(
    dtype: str,
    hidden: int,
    *,
    weight: str,
    bias: bool = False,
    residual: bool = False,
    rstd: bool = False,
    mean: bool = False,
    layernorm: bool = False,
    weight_offset: float = 0.0,
    launch: Any = None,
) -> Any:
    """Call the library's compile function."""
    value = to_cutlass(dtype)
    return QUACK.call(
        "quack.rmsnorm:_compile_rmsnorm_fwd",
        dtype=value,
        out_dtype=value,
        res_dtype=value if residual else None,
        weight_dtype=to_cutlass(weight),
        bias_dtype=to_cutlass(weight) if bias else None,
        res_out_dtype=value if residual else None,
        N=hidden,
        has_rstd=rstd,
        has_mean=mean,
        is_layernorm=layernorm,
        per_head=False,
        weight_offset=weight_offset,
        config=launch,
    )


RMSNORM = RowKernel(
    op="quack.rmsnorm",
    imports=("quack.rmsnorm",),
    targets=library.TARGETS,
    supports=supports,
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("weight", ("hidden",), "weight_dtype"),
        Constant("bias", None),
        Tensor("residual", _MATRIX, when="residual"),
        Tensor("out", _MATRIX, role="out"),
        Tensor("residual_out", _MATRIX, role="out", when="residual"),
        Tensor("rstd", ("rows",), "float32", role="out", when="statistics"),
        Constant("mean", None),
        Constant("eps", _EPS),
    ),
    names=ARGUMENTS,
    problems=problems,
    reference=reference,
    tolerance=tolerance,
    special_values=("nan", "zero", "denormal"),
    peer=peer,
    flops=4,
)


@RMSNORM
def rmsnorm(
    dtype: DType,
    hidden: int,
    weight_dtype: DType | None = None,
    residual: bool = False,
    statistics: bool = False,
    weight_offset: float = 0.0,
    threads: Tuned[int | None] = None,
    row_threads: Tuned[int | None] = None,
    cluster: Tuned[int | None] = None,
    reload: Tuned[Literal["no", "smem", "gmem"] | None] = None,
) -> Any:
    """Root-mean-square norm of rows: ``(x, weight, -, residual, out, residual_out, rstd, -, eps)``, - for None.

    ``x``, ``out`` and the residuals are ``[rows, hidden]`` of ``dtype``, with row strides of their own that keep rows
    aligned to 16 bytes; ``weight`` is ``[hidden]``. With ``residual``, it is added to ``x`` first and the sum written
    to ``residual_out``. With ``statistics``, ``rstd`` ``[rows]`` of float32 is kept for the backward pass.
    ``weight_offset`` is added to the weight (1.0 in Gemma). At least one row.
    """
    launch = None
    if threads is not None:
        launch = QUACK.module("quack.rmsnorm_config").RmsNormFwdConfig(
            num_threads=threads,
            threads_per_row=row_threads,
            cluster_n=cluster,
            reload_from=None if reload == "no" else reload,
        )
    return compile_forward(
        dtype,
        hidden,
        weight=weight_dtype or dtype,
        residual=residual,
        rstd=statistics,
        weight_offset=weight_offset,
        launch=launch,
    )


LAYERNORM = RMSNORM.with_arguments(
    "quack.layernorm",
    Tensor("bias", ("hidden",), "weight_dtype", when="bias"),
    Constant("residual", None),
    Constant("residual_out", None),
    Tensor("mean", ("rows",), "float32", role="out", when="statistics"),
)


@LAYERNORM
def layernorm(
    dtype: DType,
    hidden: int,
    weight_dtype: DType | None = "float32",
    bias: bool = True,
    statistics: bool = False,
) -> Any:
    """Layer norm of rows: ``(x, weight, bias, -, out, -, rstd, mean, eps)``, - for None.

    ``x`` and ``out`` are ``[rows, hidden]`` of ``dtype``, with row strides of their own that keep rows aligned to 16
    bytes; ``weight`` and ``bias`` are ``[hidden]`` of ``weight_dtype``. With ``statistics``, ``rstd`` and ``mean``
    ``[rows]`` of float32 are kept for the backward pass. At least one row.
    """
    return compile_forward(
        dtype, hidden, weight=weight_dtype or dtype, bias=bias, rstd=statistics, mean=statistics, layernorm=True
    )

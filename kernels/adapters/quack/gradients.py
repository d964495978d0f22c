"""``quack.rmsnorm_bwd`` and ``quack.layernorm_bwd``: the gradients of the norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.quack import library, norms
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.row_kernel import Constant, RowKernel, Tensor
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

ARGUMENTS = {
    "mX": "x", "mW": "weight", "mdO": "dout", "mdResO": "dresidual_out", "mRstd": "rstd", "mMean": "mean",
    "mdX": "dx", "mdW": "dweight", "mdRes": "dresidual", "mdB": "dbias", "sm_count": "blocks",
}  # fmt: skip
_MATRIX = ("rows", "hidden")
_ONE_ROW_A_STEP = 512  # wider rows than this are taken one at a time by each block
_WIDEST = 32 * 131_072  # bits
_LAUNCH = ("threads", "row_threads", "cluster", "reload", "tma", "stages")
_RELOADS = {"no": (None, None), "wdy": ("smem", None), "x": (None, "smem"), "both": ("smem", "smem")}
_MEMORY = 223 << 10  # bytes of a block's memory, less what a sum over a row and its barriers take
Reload = Literal["no", "wdy", "x", "both"]


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = norms.matrix_refusal(config)
    if reason is None and configs.integer(config, "hidden") * bits(str(config["dtype"])) > _WIDEST:
        widest = _WIDEST // bits(str(config["dtype"]))
        return f"hidden is {config['hidden']}: its rows do not fit a block's memory; use at most {widest}"
    return reason or launch_refusal(config)


def launch_refusal(config: Config) -> str | None:
    """Why the combination of tuned keys is not supported, or None.

    >>> config = {"dtype": "float32", "hidden": 32768, "threads": 256, "row_threads": 256, "reload": "no", "tma": False}
    >>> launch_refusal({**config, "cluster": 2, "stages": 2})
    'stages is 2: they take 256 KiB, and a block has 223; use fewer, a larger cluster, or fewer rows to a block'
    """
    reason = norms.launch_refusal(config, _LAUNCH)
    if reason or config.get("threads") is None:
        return reason
    hidden, cluster, stages = (configs.integer(config, key) for key in ("hidden", "cluster", "stages"))
    if stages not in (2, 3):
        return f"stages is {stages}: use 2 or 3"
    width = bits(str(config["dtype"]))
    if config["tma"] and (hidden % cluster or hidden // cluster * width % 128):
        return f"tma is for rows whose shares are multiples of 16 bytes, and hidden is {hidden}: use false"
    rows = configs.integer(config, "threads") // configs.integer(config, "row_threads")
    memory = 2 * stages * rows * -(-hidden // cluster) * width // 8  # of the input, and of the result's gradient
    if memory > _MEMORY:
        return (
            f"stages is {stages}: they take {memory >> 10} KiB, and a block has {_MEMORY >> 10}; use fewer, "
            "a larger cluster, or fewer rows to a block"
        )
    return None


def problems(config: Config) -> Sequence[Problem]:
    """Few rows and many, for one block and for many. Only one where blocks take several rows at a time: the library
    decides which block takes which rows, and the partial sums depend on it."""
    narrow = configs.integer(config, "hidden") <= _ONE_ROW_A_STEP
    if config.get("threads") is not None:
        narrow = config["threads"] != config["row_threads"]
    step = library.step(configs.integer(config, "hidden"), str(config["dtype"]))
    shapes = [(1, 0, 1), (17, step, 1), (129, 0, 16), (300, 3 * step, 132), (4096, 0, 264)]
    return [{"rows": r, "padding": p, "blocks": 1 if narrow else b} for r, p, b in shapes]


def prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """The statistics of ``x``, as the forward pass keeps them."""
    x, mean = inputs["x"].double(), 0.0
    if inputs["mean"] is not None:
        inputs["mean"].copy_(x.mean(dim=-1))
        mean = x.mean(dim=-1, keepdim=True)
    inputs["rstd"].copy_(((x - mean).square().mean(dim=-1) + 1e-6).rsqrt())


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The gradients in float64. A block takes every ``blocks``-th row, and leaves its own sum."""
    x, dout, rstd = inputs["x"].double(), inputs["dout"].double(), inputs["rstd"].double().unsqueeze(-1)
    layernorm = inputs["mean"] is not None
    if layernorm:
        x = x - inputs["mean"].double().unsqueeze(-1)
    normal = x * rstd
    weighted = dout * (inputs["weight"].double() + float(str(config.get("weight_offset", 0.0))))
    dx = weighted - normal * (normal * weighted).mean(dim=-1, keepdim=True)
    if layernorm:
        dx = dx - weighted.mean(dim=-1, keepdim=True)
    dx = dx * rstd
    if inputs["dresidual_out"] is not None:
        dx = dx + inputs["dresidual_out"].double()
    gradients = {"dx": dx, "dweight": _by_block(dout * normal, inputs["blocks"])}
    return {**gradients, "dbias": _by_block(dout, inputs["blocks"])} if inputs["dbias"] is not None else gradients


def _by_block(rows: Any, blocks: int) -> Any:
    import torch

    padded = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % blocks))
    return padded.view(-1, blocks, rows.shape[1]).sum(dim=0)


def tolerance(config: Config) -> Tolerance:
    """Sums of products of both signs: where they cancel, the error is in proportion to the terms, not to the sum."""
    stored = rounding.tolerance(str(config["dtype"]), 8e-6)
    return Tolerance(rtol=stored.rtol, atol=2e-4)


def _launch(
    threads: int | None,
    row_threads: int | None,
    cluster: int | None,
    reload: Reload | None,
    tma: bool | None,
    stages: int | None,
) -> Any:
    """The library's launch config, or None for its own choice."""
    if reload is None:
        return None
    reload_wdy, reload_x = _RELOADS[reload]
    return QUACK.module("quack.rmsnorm_config").RmsNormBwdConfig(
        num_threads=threads,
        threads_per_row=row_threads,
        cluster_n=cluster,
        reload_wdy=reload_wdy,
        reload_x=reload_x,
        use_tma=tma,
        smem_stages=stages,
    )


def _compile(
    dtype: str,
    hidden: int,
    *,
    weight: str,
    launch: Any,
    bias: bool = False,
    residual: bool = False,
    layernorm: bool = False,
    weight_offset: float = 0.0,
) -> Any:
    value = to_cutlass(dtype)
    return QUACK.call(
        "quack.rmsnorm:_compile_rmsnorm_bwd",
        N=hidden,
        dtype=value,
        dout_dtype=value,
        dx_dtype=value,
        weight_dtype=to_cutlass(weight),
        has_db_partial=bias,
        dres_dtype=None,
        dres_out_dtype=value if residual else None,
        has_dw_partial=True,
        per_head=False,
        T_hint=0,
        is_layernorm=layernorm,
        weight_offset=weight_offset,
        config=launch,
    )


RMSNORM_BWD = RowKernel(
    op="quack.rmsnorm_bwd",
    imports=("quack.rmsnorm",),
    targets=library.TARGETS,
    supports=supports,
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("weight", ("hidden",), "weight_dtype"),
        Tensor("dout", _MATRIX),
        Tensor("dresidual_out", _MATRIX, when="residual"),
        Tensor("rstd", ("rows",), "float32"),
        Constant("mean", None),
        Tensor("dx", _MATRIX, role="out"),
        Tensor("dweight", ("blocks", "hidden"), "float32", role="out"),
        Constant("dresidual", None),
        Constant("dbias", None),
        Constant("blocks", "blocks"),
    ),
    names=ARGUMENTS,
    problems=problems,
    prepare=prepare,
    reference=reference,
    tolerance=tolerance,
    special_values=("nan", "zero", "denormal"),
    flops=10,
)


@RMSNORM_BWD
def rmsnorm_bwd(
    dtype: DType,
    hidden: int,
    weight_dtype: DType | None = None,
    residual: bool = False,
    weight_offset: float = 0.0,
    threads: Tuned[int | None] = None,
    row_threads: Tuned[int | None] = None,
    cluster: Tuned[int | None] = None,
    reload: Tuned[Reload | None] = None,
    tma: Tuned[bool | None] = None,
    stages: Tuned[int | None] = None,
) -> Any:
    """Gradients of ``quack.rmsnorm``: ``(x, weight, dout, dresidual_out, rstd, -, dx, dweight, -, -, blocks)``.

    ``x``, ``dout`` and ``dx`` are ``[rows, hidden]``; ``x`` is what was normalised (``residual_out`` of the forward
    pass, where there was a residual), and ``rstd`` what that pass kept. ``dweight`` is ``[blocks, hidden]`` of float32:
    each of ``blocks`` blocks leaves its sum, and the caller adds them up; about twice as many as the GPU has
    multiprocessors is a good number. With ``residual``, ``dresidual_out`` is added to ``dx``. At least one row.

    How it is launched is one choice of six keys, or quack's own: ``threads`` of a block, ``row_threads`` of them to a
    row, blocks to a row (``cluster``), what is read again from a block's memory instead of kept in registers
    (``reload``: the weighted gradient, the input or both), whether rows are loaded by ``tma``, and in how many
    ``stages``.
    """
    return _compile(
        dtype,
        hidden,
        weight=weight_dtype or dtype,
        launch=_launch(threads, row_threads, cluster, reload, tma, stages),
        residual=residual,
        weight_offset=weight_offset,
    )


LAYERNORM_BWD = RMSNORM_BWD.with_arguments(
    "quack.layernorm_bwd",
    Constant("dresidual_out", None),
    Tensor("mean", ("rows",), "float32"),
    Tensor("dbias", ("blocks", "hidden"), "float32", role="out", when="bias"),
)


@LAYERNORM_BWD
def layernorm_bwd(
    dtype: DType,
    hidden: int,
    weight_dtype: DType | None = "float32",
    bias: bool = True,
    threads: Tuned[int | None] = None,
    row_threads: Tuned[int | None] = None,
    cluster: Tuned[int | None] = None,
    reload: Tuned[Reload | None] = None,
    tma: Tuned[bool | None] = None,
    stages: Tuned[int | None] = None,
) -> Any:
    """Gradients of ``quack.layernorm``: ``(x, weight, dout, -, rstd, mean, dx, dweight, -, dbias, blocks)``.

    As ``quack.rmsnorm_bwd``; ``rstd`` and ``mean`` are what the forward pass kept, and ``dbias`` is ``[blocks,
    hidden]`` of float32, to be added up like ``dweight``.
    """
    return _compile(
        dtype,
        hidden,
        weight=weight_dtype or dtype,
        launch=_launch(threads, row_threads, cluster, reload, tma, stages),
        bias=bias,
        layernorm=True,
    )

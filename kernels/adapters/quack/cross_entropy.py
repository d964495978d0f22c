"""``quack.cross_entropy`` and ``quack.cross_entropy_bwd``: the loss of rows of logits, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType
from precast.kernels.authoring.row_kernel import Constant, RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_IGNORED = -100
_MATRIX = ("rows", "classes")


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    step = library.step(configs.integer(config, "classes"), str(config["dtype"]))
    refused = library.refusal(config, "classes")
    if not refused and "dx" in config:  # the gradient alone goes through a row in parts
        refused = library.shared_memory_refusal(config, "classes", step, target)
    if refused or config.get("dx", True):  # with a gradient, a row's largest is known before anything is scaled
        return refused
    return library.cluster_refusal(config, "classes", step, target)


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    classes = configs.integer(config, "classes")
    return row_problems(classes, pad=library.step(classes, str(config["dtype"])))


def prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """Logits spread wide, random classes with every fifth row to be ignored, and positive weights."""
    import torch

    target = inputs["target"]
    generator = torch.Generator(device=target.device).manual_seed(seed + 100)
    classes = configs.integer(config, "classes")
    target.copy_(torch.randint(0, classes, target.shape, generator=generator, device=target.device))
    target[4::5] = _IGNORED
    inputs["x"].mul_(3.0)
    if inputs["weight"] is not None:
        inputs["weight"].abs_()


def forward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The loss in float64; an ignored row has none, and no gradient."""
    import torch

    x, target = inputs["x"].double(), inputs["target"].long()
    scale = _scale(target, inputs["weight"])
    lse = x.logsumexp(dim=-1)
    loss = scale * (lse - x.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1))
    gradient = _gradient(x, lse, target) * scale.unsqueeze(1)
    return {"loss": loss, "lse": lse, "dx": torch.where(target.unsqueeze(1) == _IGNORED, 0.0, gradient)}


def _scale(target: Any, weight: Any) -> Any:
    import torch

    weights = torch.ones_like(target, dtype=torch.float64) if weight is None else weight.double()[target.clamp(min=0)]
    return torch.where(target == _IGNORED, 0.0, weights)


def _gradient(x: Any, lse: Any, target: Any) -> Any:
    probabilities = (x - lse.unsqueeze(1)).exp()
    hit = target.clamp(min=0).unsqueeze(1)
    return probabilities.scatter_add(1, hit, probabilities.new_full(hit.shape, -1.0))


def backward_prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """The same, and ``lse`` as the forward pass writes it."""
    prepare(config, inputs, seed)
    inputs["lse"].copy_(inputs["x"].double().logsumexp(dim=-1))


def backward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient in float64."""
    target = inputs["target"].long()
    scale = _scale(target, inputs["weight"]) * inputs["dloss"].double()
    return {"dx": _gradient(inputs["x"].double(), inputs["lse"].double(), target) * scale.unsqueeze(1)}


def forward_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own loss of each row. It writes no gradient in the same pass, and takes weights of the logits' dtype."""
    from torch.nn.functional import cross_entropy

    if config["dx"] or (config["weight"] and config["dtype"] != "float32"):
        return {}
    x, target, weight = inputs["x"], inputs["target"].long(), inputs["weight"]
    ignored = inputs["ignore_index"]
    return {"torch cross_entropy": lambda: cross_entropy(x, target, weight, ignore_index=ignored, reduction="none")}


def tolerance(config: Config) -> Tolerance:
    """Exponentials of numbers up to 30 in float32; a gradient may be the difference of a probability and one."""
    stored = rounding.tolerance(str(config["dtype"]), 2e-5)
    return Tolerance(rtol=stored.rtol if config.get("dx", True) else 2e-5, atol=1e-5)


CROSS_ENTROPY = RowKernel(
    op="quack.cross_entropy",
    imports=("quack.cross_entropy",),
    targets=library.TARGETS,
    supports=supports,
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("target", ("rows",), "target_dtype"),
        Constant("target_logit", None),
        Tensor("loss", ("rows",), "float32", role="out"),
        Tensor("lse", ("rows",), "float32", role="out", when="lse"),
        Tensor("dx", _MATRIX, role="out", when="dx"),
        Tensor("weight", ("classes",), "float32", when="weight"),
        Constant("ignore_index", _IGNORED),
    ),
    names={
        "mX": "x", "mTarget": "target", "mTargetLogit": "target_logit", "mLoss": "loss", "mLSE": "lse", "mdX": "dx",
        "mWeight": "weight",
    },
    problems=problems,
    prepare=prepare,
    reference=forward_reference,
    tolerance=tolerance,
    special_values=("zero", "denormal"),  # a maximum drops NaN
    peer=forward_peer,
    flops=5,
)  # fmt: skip


@CROSS_ENTROPY
def cross_entropy(
    dtype: DType,
    classes: int,
    target_dtype: Literal["int32", "int64"] = "int64",
    lse: bool = True,
    dx: bool = False,
    weight: bool = False,
) -> Any:
    """Cross-entropy of rows of logits: ``(x, target, -, loss, lse, dx, weight, ignore_index)``, - for None.

    ``x`` is ``[rows, classes]``, with a row stride that keeps rows aligned to 16 bytes (or to as much of them as
    ``classes`` allows); ``target`` ``[rows]`` holds a class each, or ``ignore_index``: any other number reads outside
    the row. ``loss`` ``[rows]`` and, with ``lse``, the logarithm of each row's sum of exponents are float32. With
    ``dx`` the gradient of the loss's sum is written in the same pass (it may be ``x`` itself), and with ``weight`` each
    class has a weight ``[classes]`` of float32. At least one row.
    """
    return QUACK.call(
        "quack.cross_entropy:CrossEntropy.compile",
        dtype=to_cutlass(dtype),
        target_dtype=to_cutlass(target_dtype),
        target_logit_dtype=None,
        N=classes,
        has_lse=lse,
        has_dx=dx,
        weight_dtype=to_cutlass("float32") if weight else None,
        target_logit_ndim=None,
    )


CROSS_ENTROPY_BWD = replace(
    CROSS_ENTROPY,
    op="quack.cross_entropy_bwd",
    arguments=(
        Tensor("x", _MATRIX),
        Tensor("target", ("rows",), "target_dtype"),
        Tensor("dloss", ("rows",), "float32"),
        Tensor("dx", _MATRIX, role="out"),
        Tensor("lse", ("rows",), "float32"),
        Tensor("weight", ("classes",), "float32", when="weight"),
        Constant("ignore_index", _IGNORED),
    ),
    names={
        "mX": "x", "mTarget": "target", "mDLoss": "dloss", "mdX": "dx", "mLSE": "lse", "mWeight": "weight",
    },
    prepare=backward_prepare,
    reference=backward_reference,
    peer=None,
)  # fmt: skip


@CROSS_ENTROPY_BWD
def cross_entropy_bwd(
    dtype: DType, classes: int, target_dtype: Literal["int32", "int64"] = "int64", weight: bool = False
) -> Any:
    """Gradient of ``quack.cross_entropy``: ``(x, target, dloss, dx, lse, weight, ignore_index)``.

    ``x`` and ``dx`` are ``[rows, classes]`` with the same row stride, and may be the same; ``lse`` is what the forward
    pass wrote, and ``dloss`` ``[rows]`` of float32 what each row's loss weighs. At least one row.
    """
    return QUACK.call(
        "quack.cross_entropy:CrossEntropyBackward.compile",
        dtype=to_cutlass(dtype),
        target_dtype=to_cutlass(target_dtype),
        N=classes,
        weight_dtype=to_cutlass("float32") if weight else None,
    )

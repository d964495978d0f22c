"""``quack.cross_entropy`` and ``quack.cross_entropy_bwd``: the loss of rows of logits, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_IGNORED = -100


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    refused = library.refusal(config, "classes")
    if refused or config.get("dx", True):  # with a gradient, a row's largest is known before anything is scaled
        return refused
    step = library.step(configs.integer(config, "classes"), str(config["dtype"]))
    return library.unshared(config, "classes", step)


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    classes = configs.integer(config, "classes")
    return library.row_problems(classes, library.step(classes, str(config["dtype"])))


def _matrix(config: Config, problem: Problem, device: Any, seed: int | None = None) -> Any:
    return library.matrix(config, problem, "classes", dtype=str(config["dtype"]), device=device, seed=seed)


def _target(config: Config, problem: Problem, device: Any, seed: int) -> Any:
    """Random classes; every fifth row is to be ignored."""
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    classes = configs.integer(config, "classes")
    target = torch.randint(0, classes, (problem["rows"],), generator=generator, device=device)
    target[4::5] = _IGNORED
    return target.to(to_torch(str(config["target_dtype"])))


def _weight(config: Config, device: Any, seed: int) -> Any:
    if not config["weight"]:
        return None
    return tensors.normal((configs.integer(config, "classes"),), "float32", device=device, seed=seed).abs_()


def forward_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument that the config has, by name."""
    return {
        "x": _matrix(config, problem, device, seed).mul_(3.0),
        "target": _target(config, problem, device, seed + 1),
        "target_logit": None,
        "loss": library.per_row(problem, device=device),
        "lse": library.per_row(problem, device=device) if config["lse"] else None,
        "dx": _matrix(config, problem, device) if config["dx"] else None,
        "weight": _weight(config, device, seed + 2),
        "ignore_index": _IGNORED,
    }


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


def backward_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument that the config has, by name. ``x`` and ``dx`` have the same strides."""
    x = _matrix(config, problem, device, seed).mul_(3.0)
    return {
        "x": x,
        "target": _target(config, problem, device, seed + 1),
        "dloss": tensors.normal((problem["rows"],), "float32", device=device, seed=seed + 3),
        "dx": _matrix(config, problem, device),
        "lse": x.double().logsumexp(dim=-1).float(),
        "weight": _weight(config, device, seed + 2),
        "ignore_index": _IGNORED,
    }


def backward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient in float64."""
    target = inputs["target"].long()
    scale = _scale(target, inputs["weight"]) * inputs["dloss"].double()
    return {"dx": _gradient(inputs["x"].double(), inputs["lse"].double(), target) * scale.unsqueeze(1)}


def tolerance(config: Config) -> Tolerance:
    """Exponents of numbers up to 30 in float32; a gradient is the difference of a probability and one, of weights."""
    stored = rounding.tolerance(str(config["dtype"]), 2e-5)
    return Tolerance(rtol=stored.rtol if config.get("dx", True) else 2e-5, atol=1e-5)


def forward_cost(config: Config, problem: Problem) -> Cost:
    """The logits read once, and their gradient written where it is asked for."""
    elements = problem["rows"] * configs.integer(config, "classes")
    return Cost(5 * elements, (2 if config["dx"] else 1) * elements * bits(str(config["dtype"])) // 8)


def backward_cost(config: Config, problem: Problem) -> Cost:
    """The logits read once, their gradient written once."""
    elements = problem["rows"] * configs.integer(config, "classes")
    return Cost(5 * elements, 2 * elements * bits(str(config["dtype"])) // 8)


@kernel(
    op="quack.cross_entropy",
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=forward_inputs,
    outputs=["loss", "lse", "dx"],
    reference=forward_reference,
    tolerance=tolerance,
    cost=forward_cost,
    arguments={
        "mX": "x", "mTarget": "target", "mTargetLogit": "target_logit", "mLoss": "loss", "mLSE": "lse", "mdX": "dx",
        "mWeight": "weight",
    },
)  # fmt: skip
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
    ``classes`` allows); ``target`` ``[rows]`` holds a class each, or ``ignore_index``: any other number reads memory it
    should not. ``loss`` ``[rows]`` and, with ``lse``, the logarithm of each row's sum of exponents are float32. With
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


@kernel(
    op="quack.cross_entropy_bwd",
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=backward_inputs,
    outputs=["dx"],
    reference=backward_reference,
    tolerance=tolerance,
    cost=backward_cost,
    arguments={
        "mX": "x", "mTarget": "target", "mDLoss": "dloss", "mdX": "dx", "mLSE": "lse", "mWeight": "weight",
    },
)  # fmt: skip
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

"""quack: its compile functions stay, under their own caches; what they would compile comes from the answer."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.gpu.upstream.asked import Answer, Asked, refuse


def install(answer: Answer) -> None:
    """Replace the function under each of the library's compile caches."""
    # Functions of the package have the names of these modules.
    rmsnorm, softmax = (importlib.import_module(f"quack.{name}") for name in ("rmsnorm", "softmax"))
    for cached, translate in (
        (rmsnorm._compile_rmsnorm_fwd, norm),
        (rmsnorm._compile_rmsnorm_bwd, norm_gradient),
        (softmax.Softmax.compile, softmax_forward),
        (softmax.SoftmaxBackward.compile, softmax_backward),
    ):
        _replace(cached, translate, answer)


def _replace(cached: Any, translate: Callable[[Any], Asked], answer: Answer) -> None:
    """``cached`` is a closure over the function that it calls on a miss, under the name ``fn``."""
    cell = cached.__closure__[cached.__code__.co_freevars.index("fn")]
    function = cell.cell_contents
    signature = inspect.signature(function)

    @functools.wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return answer(functools.partial(translate, SimpleNamespace(**bound.arguments)))

    cell.cell_contents = ask


def open_operators() -> None:
    """Without memory, torch asks an operator only for the shapes of its results; the library calls these by name."""
    import torch

    rmsnorm = importlib.import_module("quack.rmsnorm")
    for short in ("rmsnorm_bwd_f", "rmsnorm_bwd_f_dual"):
        setattr(torch.ops.quack, short, getattr(rmsnorm, f"_{short}")._init_fn)


def name(dtype: Any) -> str:
    """Our name of a dtype of the compiler's."""
    from precast.kernels.authoring.dtypes import CUTLASS_NAMES

    return CUTLASS_NAMES[dtype.__name__]


def norm(key: Any) -> Asked:
    """``_compile_rmsnorm_fwd``."""
    refuse(
        a_weight_for_each_head=key.per_head,
        a_norm_without_a_weight=key.weight_dtype is None,
        a_result_of_another_dtype_than_its_input=key.out_dtype != key.dtype,
        a_residual_of_another_dtype_than_its_input=key.res_dtype not in (None, key.dtype),
        a_residual_result_of_another_dtype_than_the_residual=key.res_out_dtype != key.res_dtype,
        a_bias_in_an_RMS_norm=key.bias_dtype is not None and not key.is_layernorm,
        a_bias_of_another_dtype_than_the_weight=key.bias_dtype not in (None, key.weight_dtype),
        a_residual_in_a_layer_norm=key.is_layernorm and key.res_dtype is not None,
        a_mean_without_the_deviation=key.has_mean != (key.is_layernorm and key.has_rstd),
        a_weight_that_is_loaded_late=getattr(key.config, "delay_w_load", False),
    )
    config = {"dtype": name(key.dtype), "hidden": key.N, **_weight(key), "statistics": key.has_rstd}
    if key.is_layernorm:
        return Asked("quack.layernorm", {**config, "bias": key.bias_dtype is not None}, {})
    config |= {"residual": key.res_dtype is not None, "weight_offset": float(key.weight_offset)}
    launch = key.config
    tuned = dict.fromkeys(("threads", "row_threads", "cluster", "reload"))
    if launch is not None:
        tuned = {
            "threads": launch.num_threads,
            "row_threads": launch.threads_per_row,
            "cluster": launch.cluster_n,
            "reload": launch.reload_from or "no",
        }
    return Asked("quack.rmsnorm", config, tuned)


def norm_gradient(key: Any) -> Asked:
    """``_compile_rmsnorm_bwd``. ``T_hint`` says nothing on sm_90: only the library's choice for later ones reads it."""
    refuse(
        a_weight_for_each_head=key.per_head,
        a_norm_without_a_weight=key.weight_dtype is None or not key.has_dw_partial,
        gradients_of_several_dtypes=not key.dtype == key.dout_dtype == key.dx_dtype,
        a_gradient_of_the_residual_beside_that_of_the_input=key.dres_dtype is not None,
        a_residual_gradient_of_another_dtype=key.dres_out_dtype not in (None, key.dtype),
        a_bias_in_an_RMS_norm=key.has_db_partial and not key.is_layernorm,
        a_residual_in_a_layer_norm=key.is_layernorm and key.dres_out_dtype is not None,
    )
    config = {"dtype": name(key.dtype), "hidden": key.N, **_weight(key)}
    tuned = _gradient_launch(key.config)
    if key.is_layernorm:
        return Asked("quack.layernorm_bwd", {**config, "bias": key.has_db_partial}, tuned)
    config |= {"residual": key.dres_out_dtype is not None, "weight_offset": float(key.weight_offset)}
    return Asked("quack.rmsnorm_bwd", config, tuned)


def _gradient_launch(launch: Any) -> dict[str, Any]:
    if launch is None:
        return dict.fromkeys(("threads", "row_threads", "cluster", "reload", "tma", "stages"))
    reload = {(None, None): "no", ("smem", None): "wdy", (None, "smem"): "x", ("smem", "smem"): "both"}
    return {
        "threads": launch.num_threads,
        "row_threads": launch.threads_per_row,
        "cluster": launch.cluster_n,
        "reload": reload[launch.reload_wdy, launch.reload_x],
        "tma": launch.use_tma,
        "stages": launch.smem_stages,
    }


def softmax_forward(key: Any) -> Asked:
    """``Softmax.compile``."""
    refuse(a_result_of_another_dtype_than_its_input=key.dtype != key.out_dtype)
    return Asked("quack.softmax", {"dtype": name(key.dtype), "width": key.N}, {})


def softmax_backward(key: Any) -> Asked:
    """``SoftmaxBackward.compile``."""
    refuse(gradients_of_several_dtypes=not key.dtype == key.y_dtype == key.dx_dtype)
    return Asked("quack.softmax_bwd", {"dtype": name(key.dtype), "width": key.N}, {})


def _weight(key: Any) -> dict[str, str | None]:
    """The dtype of the weight, where it is not the input's."""
    return {"weight_dtype": None if key.weight_dtype == key.dtype else name(key.weight_dtype)}

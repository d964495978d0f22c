"""Compiling an operator, through its own ``compile``. Runs in workers."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

from precast.kernels.adapters.operators import arguments
from precast.kernels.adapters.operators.catalogue import choose
from precast.kernels.adapters.operators.config import Design, Operands
from precast.kernels.adapters.operators.corrections import correct
from precast.loader.contract.format.target import Target

_BLACKWELL = 10


def compile_operator(question: arguments.Question, design: Design, operator: type | None = None) -> Any:
    """Compile the operator of a config for the target that the DSL was started for."""
    target = Target.parse(os.environ["CUTE_DSL_ARCH"])
    chosen = choose(question, design, target, operator)
    call = arguments.make(question)
    if isinstance(question, arguments.Scaled):
        from precast.kernels.adapters.operators.blockscaled_device import take_tensors

        take_tensors(chosen, arguments.FORMATS[question.format], question.out_major)
    else:
        arguments.symbols(call, chosen, question)
        if isinstance(question, Operands) and target.capability.major >= _BLACKWELL:
            from precast.kernels.adapters.operators.without_k_device import take_no_k

            take_no_k(chosen, call, question.epilogue)
            if hasattr(chosen, "impl"):  # CUTLASS's own operators have one, those of other authors need not
                correct(chosen.impl)
    with _callers_stream():
        return chosen.compile(call, target_sm=str(target).removeprefix("sm_")).compiled_obj


@contextlib.contextmanager
def _callers_stream() -> Iterator[None]:
    """Operators make the stream an argument. Here it is the caller's current one, which is not passed."""
    from cutlass.cute import runtime

    original = runtime.make_fake_stream
    runtime.make_fake_stream = functools.partial(original, use_tvm_ffi_env_stream=True)
    try:
        yield
    finally:
        runtime.make_fake_stream = original

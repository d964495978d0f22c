"""No code for this process: a worker exports what it compiles, and has no GPU to run it on.

The compiler also makes an object callable in its own process, unless it was compiled for another GPU than there is.
That is a second generation of the host's code, and takes a third of the time of a small kernel.
"""

from __future__ import annotations


def compile_for_export_only() -> None:
    """Tell the compiler that no GPU for which it compiles is here. The exported bytes are the same."""
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.cutlass_dsl.cutlass import CutlassBaseDSL

    def no_gpu_here(dsl: object, runtime: str | None, compiled: str | None) -> bool:
        return False

    for dsl_class in (BaseDSL, CutlassBaseDSL):
        assert hasattr(dsl_class, "_runtime_can_run_compiled"), "the compiler asks by another name"
        dsl_class._runtime_can_run_compiled = no_gpu_here

"""Export only: a worker exports compiled objects, and does not generate code to call them in its own process.

The compiler also makes an object callable in its own process, if it was compiled for the GPU of the machine. That
generates the host code a second time, which takes a third of the time of a small kernel.
"""

from __future__ import annotations


def compile_for_export_only() -> None:
    """Disable the code that calls objects in this process. The exported bytes are the same."""
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.cutlass_dsl.cutlass import CutlassBaseDSL

    def no_gpu_here(dsl: object, runtime: str | None, compiled: str | None) -> bool:
        return False

    for dsl_class in (BaseDSL, CutlassBaseDSL):
        assert hasattr(dsl_class, "_runtime_can_run_compiled"), "the compiler has no such method"
        dsl_class._runtime_can_run_compiled = no_gpu_here

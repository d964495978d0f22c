"""A launch that may begin while the one before it ends: programmatic dependent launch, from sm_90 on."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.base_dsl import BaseDSL


def overlaps() -> bool:
    """Whether launches may overlap on the target that is compiled for."""
    arch = BaseDSL._get_dsl().get_arch_enum()
    return bool(arch.major >= 9)


@cute.jit
def wait_for_previous_launch() -> None:
    """Wait, before the first read or write, until the previous kernel has completed: it may still write what this one
    reads, or read what this one writes. Then let the next kernel start, which waits at the same place."""
    if cutlass.const_expr(overlaps()):
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()

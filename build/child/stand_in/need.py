"""Need: which kernel functions are imported and called only where CUDA, as torch knows it, is replaced."""

from __future__ import annotations

from precast.build.satellites import satellite
from precast.kernels.authoring.registry import FunctionRef


def needs_fake_cuda(source: FunctionRef) -> bool:
    """Whether a function's library says what to do where there is no GPU."""
    if not source.library:
        return False
    return bool(satellite("precast.attach.builder.child.seam").runs_without_gpu(source.library))


def replace_cuda(source: FunctionRef) -> None:
    """Replace CUDA for a function that needs it, before any module takes names out of torch.

    Modules of an engine ask Triton's driver, and so libcuda, while they are imported.
    """
    if needs_fake_cuda(source):
        from precast.build.child.stand_in.fake_cuda import install_fake_cuda  # imports torch, which few kernels need

        install_fake_cuda()

"""Which of precast's extras brings a module that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "torch": "torch",
        "cutlass.operators": "cutlass",
        "quack": "quack",
        "triton": "quack",
        "flash_attn": "flash-attention",
        "flashinfer": "flashinfer",
    }
)
"""The extra of the distribution ``precast`` that installs each module."""


def extra_of(module: str) -> str | None:
    """The extra that brings a module, or None.

    >>> extra_of("torch.cuda"), extra_of("cutlass.operators"), extra_of("cutlass.cute"), extra_of("numpy")
    ('torch', 'cutlass', None, None)
    """
    return next((extra for name, extra in EXTRAS.items() if module == name or module.startswith(f"{name}.")), None)


def extra_hint(error: BaseException | None) -> str:
    """What to add to the message of an error that a missing module has caused: how to install it, or nothing.

    >>> extra_hint(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "; pip install 'precast[torch]' brings it"
    """
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            extra = extra_of(error.name or "")
            return f"; pip install 'precast[{extra}]' brings it" if extra else ""
        error = error.__cause__
    return ""

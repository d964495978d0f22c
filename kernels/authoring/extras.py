"""Extras of precast: which one installs a module that a kernel file imports."""

from __future__ import annotations

# The top-level module, or a submodule where that says more: the DSL itself is the module cutlass.
EXTRAS = {
    "cutlass.operators": "cutlass",
    "flash_attn": "flash-attention",
    "flashinfer": "flashinfer",
    "precast.attach": "attach",
    "precast.measure": "measure",
    "precast.native": "native",
    "precast.publish": "publish",
    "precast.publish.remote": "remote",
    **{f"precast.publish.commands.{name}": "sign" for name in ("sbom", "sign", "verify_signature")},
    "quack": "quack",
    "torch": "torch",
    "triton": "quack",
}


def extra_of(module: str) -> str | None:
    """The extra that installs a module; None where no extra does.

    >>> extra_of("torch.nn"), extra_of("cutlass.operators.gemm"), extra_of("cutlass.cute")
    ('torch', 'cutlass', None)
    >>> extra_of("precast.publish.commands.push"), extra_of("precast.publish.commands.sign")
    ('publish', 'sign')
    """
    parts = module.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((EXTRAS[prefix] for prefix in prefixes if prefix in EXTRAS), None)


def installing(module: str) -> str | None:
    """The command that installs a module; None where no extra does.

    >>> installing("torch")
    "pip install 'precast[torch]'"
    """
    extra = extra_of(module)
    return f"pip install 'precast[{extra}]'" if extra else None


def extra_hint(error: BaseException | None) -> str:
    """What to add to the message of an error that a missing module has caused: how to install it, or nothing.

    >>> extra_hint(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "; pip install 'precast[torch]' installs it"
    """
    while error is not None:
        if "pip install" in str(error):
            return ""  # the message says it already
        if isinstance(error, ModuleNotFoundError):
            command = installing(error.name or "")
            return f"; {command} installs it" if command else ""
        error = error.__cause__
    return ""

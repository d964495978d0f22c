"""Errors in a kernel's declaration, or in the reference to its function."""

from __future__ import annotations

from precast.loader.errors import PrecastError


class DeclarationError(PrecastError, TypeError):
    """A function cannot be a kernel: its signature, hints or declaration hold something unsupported."""

    code = "PCK01"


class SourceError(PrecastError, ImportError):
    """A ``module:function`` is misspelt, or cannot be imported or called."""

    code = "PCK02"


class UnknownOp(PrecastError, LookupError):
    """No installed distribution registers a kernel for the op."""

    code = "PCK03"

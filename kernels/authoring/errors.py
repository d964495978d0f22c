"""What can be wrong with a kernel's declaration, or with the place it is named by."""

from __future__ import annotations

from precast.loader.errors import PrecastError


class DeclarationError(PrecastError, TypeError):
    """A function cannot be a kernel as it stands: its signature, hints or declaration say what precast cannot keep."""


class SourceError(PrecastError, ImportError):
    """A ``module:function`` is misspelt, or what it names cannot be imported or called."""


class UnknownOp(PrecastError, LookupError):
    """No installed distribution registers a kernel for the op."""

"""What to compile: the authoring interface, and this project's kernels. Importing it imports neither DSL nor torch."""

from precast.kernels.authoring.declare import Cost, Declaration, Tolerance, declaration_of, kernel
from precast.kernels.authoring.hints import DType, Tuned

__all__ = ["Cost", "DType", "Declaration", "Tolerance", "Tuned", "declaration_of", "kernel"]

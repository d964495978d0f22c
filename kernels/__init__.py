"""What to compile: the interface for kernel authors, and this project's kernels.

Importing it imports neither the DSL nor torch.
"""

from precast.kernels.authoring.composition import Multicast, Part, Ranks, Window, addresses
from precast.kernels.authoring.declare import Cost, Declaration, Tolerance, declaration_of, kernel
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.tile import Tile

__all__ = [
    "Cost", "DType", "Declaration", "Multicast", "Part", "Ranks", "Tile", "Tolerance", "Tuned", "Window",
    "addresses", "declaration_of", "kernel",
]  # fmt: skip

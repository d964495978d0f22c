"""Kernels of an attention layer: its positions and its cache."""

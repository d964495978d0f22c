"""Kernels of an attention layer: its positions, its cache, and attention to a cache of latents."""

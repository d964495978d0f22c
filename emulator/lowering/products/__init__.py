"""Matrices: their fragments, mma.sync, wgmma and tcgen05."""

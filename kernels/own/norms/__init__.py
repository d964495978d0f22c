"""Kernels that divide each row by its size."""

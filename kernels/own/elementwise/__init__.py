"""Kernels that take each element alone."""

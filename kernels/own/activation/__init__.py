"""Kernels that pass one half of each row through a function and multiply it by the other."""

"""Kernel scripts: whole files that run a kernel by themselves, taken as kernels."""

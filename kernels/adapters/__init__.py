"""Kernels of other libraries, compiled as they are: one folder a library."""

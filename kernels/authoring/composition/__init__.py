"""Kernels that are not one object for one GPU: parts of a function with several, and ranks that launch together."""

"""The kernels of this project: examples of how one is written."""

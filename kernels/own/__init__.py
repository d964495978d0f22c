"""The kernels of this project: models of how one is written."""

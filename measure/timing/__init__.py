"""The clock of kernels, and what the GPU can do at most: both measured on the device in one process."""

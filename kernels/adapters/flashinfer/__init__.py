"""FlashInfer's kernels in the CuTe DSL: norms, quantisation, and products of quantised matrices.

Each is compiled by the library's own function, unchanged. These modules declare how that is called, what the arguments
mean, and what the kernel must compute.
"""

"""FlashInfer's kernels in the CuTe DSL: norms, quantisation, and products of quantised matrices.

Each is compiled by the library's own function, from code that stays as it is; these modules say how it is called, what
its arguments mean, and what it must compute.
"""

"""CUTLASS operators (the package nvidia-cutlass-operators) as kernels.

Importing these modules imports neither the DSL, nor the operators, nor torch.
"""

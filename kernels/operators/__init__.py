"""CUTLASS operators (the package nvidia-cutlass-operators) as kernels: what ``precast.kernels.cutlass_operators`` has
beneath it. Importing these modules imports neither the DSL, nor the operators, nor torch.
"""

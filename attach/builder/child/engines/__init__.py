"""Engines: which kernels one compiles for a model, enumerated without weights and without a GPU."""

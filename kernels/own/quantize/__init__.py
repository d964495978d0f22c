"""Kernels that store rows as float8 with scales, and the way back."""

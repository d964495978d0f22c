"""Compiling a plan's variants: in worker processes of this machine, or on a cluster."""

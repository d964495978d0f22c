"""The closed world of a compilation: what its closure names is there, and nothing else."""

"""Observation of what a compilation reads: files, modules, variables, the clock and randomness."""

"""The files that ``precast new`` writes: a kernel with its verification and benchmark, a warm-up, or a CI workflow."""

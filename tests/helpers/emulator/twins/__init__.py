"""Right kernels by family, each with its wrong twins."""

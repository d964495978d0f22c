"""What runs in child processes for attached libraries: recording their programs, compiling their kernels."""

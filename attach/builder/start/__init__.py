"""Record what other compilers leave in their caches at the start of a program, and check that it is complete."""

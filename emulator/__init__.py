"""An interpreter of PTX on the CPU: what a kernel computes, and what it does wrong, where there is no GPU."""

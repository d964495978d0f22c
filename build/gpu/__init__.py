"""The facts of GPUs, for builds on machines without one."""

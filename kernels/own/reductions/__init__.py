"""Kernels that make one number of each row, or that divide a row by one."""

"""Copies: cp.async, bulk copies, copies by tensor maps, changes of these, and stores to the memory of several GPUs."""

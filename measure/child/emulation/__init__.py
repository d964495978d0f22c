"""The process that emulates: host code of a cache is called with tensors of the CPU, and its launches are emulated."""

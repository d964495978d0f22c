"""The process that emulates: a cache's host code called with tensors of the CPU, and its launches run by the emulator."""

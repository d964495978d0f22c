"""The stand-in for a GPU in child processes: its facts, its CUDA API, tensors without memory."""

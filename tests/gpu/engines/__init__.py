"""Kernels of vLLM's and SGLang's own sources on a Hopper GPU, each beside the same in torch."""

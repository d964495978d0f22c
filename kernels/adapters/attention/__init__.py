"""FlashAttention-4's kernels, compiled by running its own functions on tensors that have no memory.

Every compiled function takes its tensors by position with None in the slots its config has no tensor for, or, better,
by name. It trusts what it is given: head counts, head sizes and lengths are checked by FlashAttention's Python code and
not by the object, so they are the caller's to keep, as the docstrings here say. A caller without a single query or key
skips the call.
"""

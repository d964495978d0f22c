"""quack's kernels, compiled from its own functions as they are: norms, softmax, cross-entropy, top-k and rotary.

Every compiled function takes its tensors by position with None in the slots its config has no tensor for, or by name.
What quack's Python wrappers check before a launch is the caller's to keep: the docstrings here say what that is. None
of them launches an empty grid: a caller with no rows skips the call.
"""

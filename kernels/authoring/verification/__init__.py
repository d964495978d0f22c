"""What ``verify`` is made of: the runs of a problem, tensors between guards, streams, special values, comparisons."""

"""The checks of one kernel: the runs of a problem, tensors between guards, streams, special values, comparisons."""

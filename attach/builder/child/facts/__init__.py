"""What decides the kernel of an attached library beside its key, found in the process that compiles it."""

"""Places for registers, so that those whose values are not needed at the same time share one."""

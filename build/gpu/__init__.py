"""GPUs as numbers: what a target's GPU answers when it is asked about itself, on machines without one."""

"""Where threads go, and what those of a warp do together."""

"""What a notebook shows of caches, ops and decisions."""

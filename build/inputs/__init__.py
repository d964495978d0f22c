"""What a variant is made of: the digests of its sources, and the distributions they come from."""

"""The inputs of a variant: its sources, and everything else that its compilation read."""

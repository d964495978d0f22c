"""What a variant is made of: its sources, and everything else that its compilation read."""

"""What ``precast build`` prints, and its rounds with ``--watch``."""

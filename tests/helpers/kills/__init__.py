"""Kills and stops at random moments of every kind of process that precast starts, and what must hold after each."""

"""Recordings of programs and engines, for the commands that make and check them."""

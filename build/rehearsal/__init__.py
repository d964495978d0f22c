"""Rehearsals: an object's host code runs without a GPU, and what it would launch becomes a host program."""

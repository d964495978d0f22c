"""Machinery that exists for speed at start-up, each piece with its figure and the condition under which it may go."""

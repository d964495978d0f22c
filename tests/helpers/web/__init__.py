"""Servers of tests, on this machine: of files, of a hub, in front of a real registry; each can be told to misbehave."""

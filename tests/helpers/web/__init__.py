"""What tests of the web need on this machine: a browser, and servers of files, of a hub, in front of a real registry.

Each server can be told to misbehave.
"""

"""Which artifact serves a request on this machine, and why each other one does not."""

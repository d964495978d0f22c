"""References of ops whose functions are a library's own, named in a manifest (``compile:``): written from what these
compute, and registered in the group ``precast.references``."""

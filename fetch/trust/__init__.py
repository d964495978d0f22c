"""Trust: who signed a cache, and whom a policy accepts. Signatures need the extra ``precast-loader[trust]``."""

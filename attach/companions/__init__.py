"""Companions: the caches of other compilers, such as Triton, as verified files of a precast cache.

``companion`` declares each, ``machine_facts`` decides whether recorded files fit, ``placement`` puts them
where their owner looks, and ``before_import`` does so in a process that attaches.
"""

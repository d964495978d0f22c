"""Deferred imports: modules that a library imports and uses only to compile or to tune.

An attached library gets its kernels from caches, so that a serving process imports such modules for nothing. Their
names are bound as before, and their code runs at their first use, in the module that was bound. An error of that late
import says which module it was.
"""

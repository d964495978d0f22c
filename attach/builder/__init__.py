"""The builder's half of attach: recordings, programs that are recorded, and compile functions as kernels.

It imports the builder, which imports it by name only (``precast.build.satellites``). Nothing else of attach imports it.
"""

"""The device code of these kernels. Importing a module of this package starts the DSL."""

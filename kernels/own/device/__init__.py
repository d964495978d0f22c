"""The device code of this project's kernels. Importing a module of this package starts the DSL."""

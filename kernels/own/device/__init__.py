"""Device code that kernels of several families share. Importing a module of this package starts the DSL."""

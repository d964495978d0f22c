"""Their device code. Importing a module of this package starts the DSL."""

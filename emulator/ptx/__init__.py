"""PTX, read: modules, functions, statements, and the scopes in which names are declared."""

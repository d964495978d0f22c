"""From statements of PTX to instructions of the interpreter, a module for each family."""

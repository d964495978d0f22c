"""Other libraries' own test suites, run attached: their kernels come out of a cache, and nothing is compiled.

Nothing of theirs is here: ``suites.py`` says which files of which commit they are, and ``kit.py`` takes them from a
clone. On a GPU, ``run`` records what the tests ask for, builds it, and runs them again with what was built: with the
DSL present and compiling forbidden, and with the DSL absent. A test passes if it launched kernels of the cache, none
was compiled, and its own assertions hold.
"""

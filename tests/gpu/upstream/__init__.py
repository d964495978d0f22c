"""Other libraries' own test suites, run with their compile calls replaced by ``loader.get``.

Nothing of theirs is here: ``suites.py`` says which files of which commit they are, and ``kit.py`` takes them from a
clone. Without a GPU, ``collect.py`` runs the tests up to each compile call, and writes what they ask for as a manifest;
on a GPU, ``run`` runs them with the cache that was built of it. A test passes if it launched kernels of the cache, none
was compiled, and its own assertions hold.
"""

"""Machinery that exists only for the time to a first kernel. Each piece may go when its condition holds.

========================== ============================================ ========================== ====================
piece                      in place of                                  measured                   may go when
========================== ============================================ ========================== ====================
``values.Immutable``       ``dataclass(frozen=True, slots=True)``       0.03 ms a class, not 0.69  they cost the same
                                                                                                   in dataclasses
``installed.Installed``    ``importlib.metadata``                       1 ms to find the wheels,   that and its import
                                                                        not 34 and its import      take under 2 ms
``zstandard_backend``      ``import zstandard``                         0.8 ms, not 14.6           zstandard no longer
                                                                                                   imports ``platform``
``format.rows``            one ``json.loads`` of an op's file           1 ms of 500 artifacts,     ops have only tens
                                                                        not 10                     of artifacts
``format.patterns``        compiled regular expressions                 see ``Pattern.quick``      every process uses
                                                                                                   these expressions
types for checkers alone   ``TypeVar``, ``Generic``, ``Union`` and     0.02 to 0.1 ms each        they are made in C in
                           abstract base classes at run time                                       every Python
``loader.__getattr__``     imports at the top of the package            the first ``get`` imports  imports are lazy in
                                                                        only what it uses          Python itself
========================== ============================================ ========================== ====================

Measured in one run on a busy machine with two cores: read the figures as ratios. ``rows`` and ``patterns`` are in
``format``, whose readers use them. Types that only checkers need are under ``TYPE_CHECKING``, or are string aliases.
"""

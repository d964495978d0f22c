"""The version of the distributions, and the loader versions that a cache built by this version requires.

The build back end reads ``VERSION`` out of this file as text (see ``hatch_build.py``): keep it a plain assignment.
"""

VERSION = "0.1.0"


def compatible(version: str = VERSION) -> str:
    """The range of loader versions that a cache wheel depends on: this minor version, from its first release on.

    >>> compatible("0.1.3")
    '>=0.1,<0.2'
    """
    major, minor = map(int, version.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}"

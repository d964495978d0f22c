"""A cache on disk, and libprecast compiled, for the tests of this room."""

from tests.helpers.loader_fixtures import native, path
from tests.helpers.native.libprecast import libprecast, program

__all__ = ["libprecast", "native", "path", "program"]

"""A cache on disk, and libprecast compiled, for the tests of this room."""

from tests.helpers.libprecast import libprecast, program
from tests.helpers.loader_fixtures import native, path

__all__ = ["libprecast", "native", "path", "program"]

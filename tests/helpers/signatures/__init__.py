"""Keys and signatures. A test that needs them skips itself without ``precast-publish[sign]``."""

import pytest

pytest.importorskip("cryptography")

"""The builder's half of attach, where the builder is installed. The child processes of its builds are forked."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.helpers.loader_fixtures import installed, native

__all__ = ["installed", "native"]

collect_ignore_glob = [] if find_spec("precast.build") else ["*"]


@pytest.fixture(scope="module", autouse=True)
def _forked(forked_children: None) -> None:
    """For every test of this folder."""

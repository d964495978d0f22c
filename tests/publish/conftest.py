"""The child processes of builds are forked."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _forked(forked_children: None) -> None:
    """As in the rooms of the builder."""

"""The child processes are forked, except those of whole commands."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name != "commands":
        request.getfixturevalue("forked_children")

"""The child processes of builds are forked, except in the room that starts them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name != "ipc":
        request.getfixturevalue("forked_children")

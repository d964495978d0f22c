"""The number of objects that a compile function of an attached library made, as an artifact says it."""

from __future__ import annotations

from typing import Any

import pytest

from precast.loader.contract.format.several_objects import count_of
from precast.loader.errors import FormatError


@pytest.mark.parametrize("number", [0, 65, True, "2", None, 2.0])
def test_a_number_of_objects_is_checked_when_it_is_read(number: Any) -> None:
    with pytest.raises(FormatError, match="not a number of objects"):
        count_of({"objects": number})

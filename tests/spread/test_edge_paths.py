"""Path counters, copy by copy."""

import pytest
from support.paths_by_hand import BY_HAND


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    BY_HAND[name]()

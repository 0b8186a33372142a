"""Each rule of docs/protocols/edge.md by a schedule that it exists for."""

import pytest
from support.schedules_edge import EDGES


@pytest.mark.parametrize("schedule", EDGES)
def test_schedule(schedule: str) -> None:
    EDGES[schedule]()

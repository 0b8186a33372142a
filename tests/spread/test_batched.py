"""Messages that travel together: the kit of every spread, and what batching promises beyond it."""

import pytest
from support.conformance_batched import BATCHED_CHECKS

from thence.spread.batched import Batched
from thence.spread.mesh import Mesh


@pytest.mark.parametrize("check", BATCHED_CHECKS)
def test_batched_conforms(check: str) -> None:
    BATCHED_CHECKS[check](Batched)


@pytest.mark.parametrize("every_us", [0, -1])
def test_a_batch_needs_some_time(every_us: int) -> None:
    with pytest.raises(ValueError, match="a batch every"):
        Batched(Mesh(0, 2), every_us)

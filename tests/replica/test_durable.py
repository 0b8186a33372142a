"""Fault: a durable replica is killed at the worst moments and comes back from its log."""

import pytest
from support.conformance_durable import DURABLE_CHECKS

from thence.replica.tree import TreeReplica


@pytest.mark.parametrize("check", DURABLE_CHECKS)
def test_durable_replica_conforms(check: str) -> None:
    DURABLE_CHECKS[check](TreeReplica)

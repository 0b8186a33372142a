"""The log under its kit."""

import pytest
from support.conformance_oplog import OPLOG_CHECKS

from thence.oplog.log import OpLog


@pytest.mark.parametrize("check", OPLOG_CHECKS)
def test_a_log_passes(check: str) -> None:
    OPLOG_CHECKS[check](OpLog)

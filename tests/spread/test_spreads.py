"""Every spread under the conformance kit."""

import pytest
from support.conformance_spread import SPREAD_CHECKS

from thence.core.errors import UsageError
from thence.spread.spread import SpreadKind
from thence.spread.spreads import SPREADS, spread


@pytest.mark.parametrize("check", SPREAD_CHECKS)
@pytest.mark.parametrize("kind", SPREADS.values(), ids=lambda kind: kind.name)
def test_spread_conforms(kind: SpreadKind, check: str) -> None:
    SPREAD_CHECKS[check](kind)


def test_spreads_are_found_by_name() -> None:
    assert spread("mesh") is SPREADS["mesh"]
    with pytest.raises(UsageError, match="there is mesh"):
        spread("rumour")

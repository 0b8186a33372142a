"""Groups of either kind, for what is the same in both."""

from pathlib import Path

import pytest
from support.changing import EitherPair


@pytest.fixture(params=["fixed", "changing"])
def either(tmp_path: Path, request: pytest.FixtureRequest) -> EitherPair:
    return EitherPair(tmp_path, request.param == "changing")

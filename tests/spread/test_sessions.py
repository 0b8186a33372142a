"""The mesh over sessions: the kit, and what needs no planted bug to be believed."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.conformance_sessions import SESSION_CHECKS, SMALL, calm, something
from support.session_net import Net

from thence.core.errors import UsageError
from thence.spread.sessions import SessionMesh, SessionSettings


@pytest.mark.parametrize("check", SESSION_CHECKS)
def test_session_mesh_conforms(check: str) -> None:
    SESSION_CHECKS[check](SessionMesh)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32), st.integers(0, 250), st.booleans())
def test_whatever_happens_everyone_has_everything_in_the_end(
    size: int, seed: int, steps: int, forgetful: bool
) -> None:
    rng = Random(seed)
    net = Net(SessionMesh, size, SMALL, seed)
    for _ in range(steps):
        something(net, rng, forgetful)
    calm(net)


def test_settings_that_could_never_work_are_refused() -> None:
    for wrong in ({"window": 3}, {"window_bytes": 4095}, {"ack_every_us": 0}):
        with pytest.raises(UsageError, match="session settings"):
            SessionSettings(**wrong)
    with pytest.raises(ValueError, match="member 2 of 2"):
        SessionMesh(2, 2, Net(SessionMesh, 2, SMALL).ledgers[0])

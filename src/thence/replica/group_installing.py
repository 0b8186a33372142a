"""A state that has come whole becomes what this process is, a bounded part of the work at a time: rules 10,
22 and 23 of docs/protocols/membership.md.

Where a member was away for long, a state holds tens of thousands of messages. It is decoded and checked, the
log of the new incarnation is written and its order built up; until then the old incarnation works on. What
that one had and the state lacks can only be told when it does nothing more: from there on it is *silent*, and
what comes for it is kept, should its program be unable to begin from the state and it go on. In the last step
the state is written down and the new incarnation takes its place. Before that there is nothing on the disk
that a restart would find whole: whoever crashes on the way begins anew.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

from thence.core.errors import PeerError
from thence.members.attempt import Attempt
from thence.replica.group_backlog import Allowance
from thence.replica.group_births import is_outdated, returning, told_exactly
from thence.replica.group_handover import checking
from thence.replica.group_lives import Begun, Lives
from thence.replica.group_member import Member
from thence.replica.group_orphans import decided
from thence.replica.group_parts import Application, Orphan
from thence.replica.group_state import GroupState, decoding


class OutdatedError(PeerError):
    """The maker of a state was put back to an earlier one, and does not know."""


class Before(NamedTuple):
    """What runs here, or ran here last."""

    old: Member | None
    leaves: bool
    """It is to leave."""
    forgetful: bool
    """It may have said more than it remembers."""


class Ready(NamedTuple):
    """An incarnation that can begin."""

    begun: Begun
    state: GroupState
    written: bytes
    old: Member | None
    orphans: list[Orphan]


class Installing:
    __slots__ = ("_rest", "attempt", "silent")

    def __init__(
        self, attempt: Attempt, lives: Lives, application: Application, before: Callable[[], Before], now: int
    ) -> None:
        self.attempt = attempt
        self.silent = False
        """What ran here before does nothing more."""
        self._rest = self._steps(lives, application, before, now)

    def go_on(self, allowance: Allowance) -> Ready | None:
        """As far as is allowed; the incarnation, if that was all. `PeerError`: no correct peer makes such a
        state."""
        done = allowance.spend_on(self._rest)
        return done[0] if done is not None else None

    def _steps(
        self, lives: Lives, application: Application, before: Callable[[], Before], now: int
    ) -> Generator[int, None, Ready]:
        attempt, orphans = self.attempt, list[Orphan]()
        state = yield from decoding(bytes(attempt.buffer))
        yield from checking(state, attempt.joiner)
        begun = yield from lives.beginning(attempt.joiner, state, now)
        old, leaves, forgetful = before()
        if old is not None and is_outdated(state, attempt.bound, old):
            raise OutdatedError(f"{attempt.bound} was put back to an earlier state")
        self.silent = True
        if old is None:
            state.since = attempt.since
        else:
            yield from returning(state, old, leaves, forgetful, application.reads)
            orphans = yield from decided(state, old, application)
            yield from told_exactly(state, old)
        written = yield from lives.writing(begun, state)
        return Ready(begun, state, written, old, orphans)

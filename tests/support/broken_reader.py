"""A member with a bug whose program has no state, for trials that must notice: when it comes back, the
program is told nothing of what it has missed."""

import sys
from collections.abc import Iterator

from thence.lab.chaos import expected as tally
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.lifecycle import returning
from thence.replica.group.lifecycle.returning import goes_on
from thence.replica.group.member.member import Member


def silent(state: MemberState, old: Member) -> Iterator[int]:
    yield from goes_on(state, old)
    state.unread = []


if __name__ == "__main__":
    setattr(returning, "goes_on", silent)  # noqa: B010 - not exported, on purpose
    sys.exit(tally.run(sys.argv[1:]))

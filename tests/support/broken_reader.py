"""A member with a bug whose program has no state, for trials that must notice: when it comes back, the
program is told nothing of what it has missed."""

import sys
from collections.abc import Iterator

from thence.cli.chaos import tally
from thence.replica import group_births
from thence.replica.group_member import Member
from thence.replica.group_reading import goes_on
from thence.replica.group_state import GroupState


def silent(state: GroupState, old: Member) -> Iterator[int]:
    yield from goes_on(state, old)
    state.unread = []


if __name__ == "__main__":
    setattr(group_births, "goes_on", silent)  # noqa: B010 - not exported, on purpose
    sys.exit(tally.run(sys.argv[1:]))

"""A member of a changing group with a bug, for trials that must notice: it forgets its orphans, so that what
it sent while the others went on without it is lost."""

import sys

from thence.cli.chaos import tally
from thence.replica.group_lives import Begun, Lives
from thence.replica.group_member import Member
from thence.replica.group_state import GroupState

real = Lives._begin


def forgetful(self: Lives, begun: Begun, state: GroupState, now: int) -> Member:
    state.orphans = []
    return real(self, begun, state, now)


if __name__ == "__main__":
    Lives._begin = forgetful  # type: ignore[method-assign]
    sys.exit(tally.run(sys.argv[1:]))

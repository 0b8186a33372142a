"""A member of a changing group with a bug, for trials that must notice: it forgets its orphans, so that what
it sent while the others went on without it is lost."""

import sys

from thence.lab.chaos import expected as tally
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.lifecycle.incarnations import Incarnations, NewIncarnation
from thence.replica.group.member.member import Member

real = Incarnations._begin


def forgetful(self: Incarnations, begun: NewIncarnation, state: MemberState, now: int) -> Member:
    state.orphans = []
    return real(self, begun, state, now)


if __name__ == "__main__":
    Incarnations._begin = forgetful  # type: ignore[method-assign]
    sys.exit(tally.run(sys.argv[1:]))

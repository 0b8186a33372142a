"""A member of a changing group with a bug, for trials that must notice: it forgets its orphans, so that what
it sent while the others went on without it is lost."""

import sys
from collections.abc import Iterable

from thence.cli.chaos import tally
from thence.core.groups import Place
from thence.members.operations import Operation, Operations

real = Operations.__init__


def forgetful(
    self: Operations,
    inherited: Iterable[Operation] = (),
    carried: Iterable[Place] = (),
    orphans: Iterable[Operation] = (),
) -> None:
    real(self, inherited, carried)
    del orphans


if __name__ == "__main__":
    Operations.__init__ = forgetful  # type: ignore[method-assign]
    sys.exit(tally.run(sys.argv[1:]))

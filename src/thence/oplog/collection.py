"""Which segments may go.

A segment goes for one of two reasons:

* it is not needed: all its messages are stable (every member has delivered them) and the application has
  taken everything up to its end;
* there is too much, or it is too old, and a snapshot stands in for it: a peer that would still need it
  gets the state instead.

Either way nothing goes that a kept snapshot would have to be continued from, the older one included:
falling back on it is worth nothing if the log no longer reaches back to it. Segments go from the head
only, so that what stays is one stretch.

Age alone (ECO SYNC Tree, §4.2.1) is no reason: a partition that outlasts it would lose messages.
"""

from itertools import pairwise

from thence.oplog.segment import Segment
from thence.oplog.settings import LogSettings
from thence.oplog.state import ReplayedState, covers


def removable(
    segments: list[Segment],
    state: ReplayedState,
    settings: LogSettings,
    now: int,
    limit: int | None = None,
    least: int = 0,
) -> int:
    """How many segments at the head may go; none with a record after `limit`, nor if fewer than `least` bytes
    would be left."""
    standing = min([kept.covers for kept in state.snapshots], default=None)
    total = sum([segment.size for segment in segments])
    count = 0
    for segment, following in pairwise(segments):
        upto = following.before
        if (
            upto > state.taken
            or total - segment.size < least
            or (limit is not None and segment.last > limit)  # marks included: they may be needed as well
            or (standing is not None and upto > standing)
        ):
            break
        too_much = settings.keep_bytes is not None and total > settings.keep_bytes
        too_old = settings.keep_us is not None and now - following.created_us > settings.keep_us
        if not covers(state.stable, following.start) and (standing is None or not (too_much or too_old)):
            break
        total -= segment.size
        count += 1
    return count

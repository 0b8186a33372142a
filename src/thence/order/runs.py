"""Where runs begin and end: messages that hold several operations of their sender.

A run is named by its last operation, as contexts and receipts name it, so per origin the dots of messages
have gaps. Here the gaps are known, for runs that are in the window; everything else is one operation long.
"""

from array import array
from bisect import bisect_left

from thence.core.dots import ORIGIN_MASK, STEP

SHORTEN: int = 64
"""Runs that have left the window before the arrays are copied without them."""


class Runs:
    """Invariant: per origin `_firsts` and `_ends` ascend, in pairs that do not overlap; those before `_gone`
    have left the window."""

    __slots__ = ("_ends", "_firsts", "_gone")

    def __init__(self) -> None:
        self._firsts: dict[int, array[int]] = {}
        self._ends: dict[int, array[int]] = {}
        self._gone: dict[int, int] = {}

    def add(self, before: int, dot: int) -> None:
        """A run that follows `before` and ends with `dot` is in the window."""
        origin = dot & ORIGIN_MASK
        if origin not in self._ends:
            self._firsts[origin], self._ends[origin], self._gone[origin] = array("q"), array("q"), 0
        self._firsts[origin].append(before + STEP)
        self._ends[origin].append(dot)

    def left(self, dot: int) -> None:
        """The message of that name, the oldest of its origin, has left the window."""
        origin = dot & ORIGIN_MASK
        ends = self._ends.get(origin)
        if ends is None:
            return
        gone = self._gone[origin]
        if gone < len(ends) and ends[gone] <= dot:
            self._gone[origin] = gone = gone + 1
            if gone == len(ends):
                del self._firsts[origin], self._ends[origin], self._gone[origin]
            elif gone >= SHORTEN and 2 * gone >= len(ends):
                del self._firsts[origin][:gone], ends[:gone]
                self._gone[origin] = 0

    def holding(self, dot: int) -> int:
        """The message that holds this operation."""
        ends = self._ends.get(dot & ORIGIN_MASK)
        if ends is None:
            return dot
        at = bisect_left(ends, dot)
        return ends[at] if at < len(ends) and self._firsts[dot & ORIGIN_MASK][at] <= dot else dot

    def before(self, dot: int) -> int:
        """The end of the message before the one of that name."""
        ends = self._ends.get(dot & ORIGIN_MASK)
        if ends is not None:
            at = bisect_left(ends, dot)
            if at < len(ends) and ends[at] == dot:
                return self._firsts[dot & ORIGIN_MASK][at] - STEP
        return dot - STEP

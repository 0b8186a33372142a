"""A message whose clock is told by its low bits: so many bytes, however old the group is.

Counters of a clock that members share grow apart, since entries have different numbers of members: whole, a
clock costs a bit more per entry whenever the group has doubled its age. A receiver that is nearly up to date
knows all but the low bits. It takes, of the counters that end like that, the one next to its own clock's. A
sum over the whole clock tells it whether that was right; if not, it is too far behind (or ahead), and the
message must come whole.

Invariant: what `whole` gives is the message that `short` was given, or nothing (but for one wrong clock in
2³²).
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from thence.core.message import Message
from thence.core.overlay import Rumour

SPAN: Final = 256
"""Counters that a byte tells apart: those from 128 below the receiver's clock to 127 above it."""

HALF: Final = SPAN // 2


def _wide(clock: Sequence[int]) -> bytes:
    """Eight bytes for each counter, the low one first."""
    words = array("Q", clock)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def short(message: Message) -> Rumour:
    wide = _wide(message.context)
    return Rumour(message.dot, wide[::8], crc32(wide), message.payload)


def whole(rumour: Rumour, clock: Sequence[int]) -> Message | None:
    """The message, if this clock is close to its own."""
    near = zip(rumour.low, _wide(clock)[::8], clock, strict=True)
    stamp = [
        counter if low == own else counter + (low - own + HALF) % SPAN - HALF for low, own, counter in near
    ]
    if min(stamp) < 0:
        stamp = [counter if counter >= 0 else counter + SPAN for counter in stamp]
    if crc32(_wide(stamp)) != rumour.check:
        return None
    return Message(rumour.dot, tuple(stamp), rumour.payload)

"""What packets and records of a changing group take at most.

Whatever is in a log must be able to travel, and to be carried. A message is one record of the log: beside the
largest payload that holds the head of a message, its context, and what an operation needs to be carried (rule
23 of docs/protocols/membership.md). Each of these has a bound. How large a packet is does not bound messages:
larger ones travel in fragments (`replica/group/channel/directions.py`), and names go in packets of their own
(`replica/group/channel/links.py`).

All other packets hold names and numbers, each at most once. They fit as long as all names together fit a
quarter of a frame, and a contact lets no joiner in whose name would not. The other three quarters are for
joiners that others let in at the same time, for the names of a side that was given up, and for contexts.
"""

from collections.abc import Iterable
from typing import Final

from thence.core.group_words import MAX_NAME
from thence.core.groups import START_BYTES, STARTS_MAX

FLOW_BYTES: Final = 2 + 10 + 3 + 1 + 4 + 5
"""Version and kind, stream, first index, number of names (none), checksum, length of a message."""

FRAGMENT_BYTES: Final = 2 + 10 + 5 + 5 + 4
"""Version and kind, stream, offset, total, checksum."""

MESSAGE_BYTES: Final = 2 + 3 + 7 + 4 + 1 + 5 + 4
"""Version and kind, origin, counter, number of dots, destinations (none), length of the payload, checksum."""

DOT_BYTES: Final = 3 + 7
"""Of a context: the gap to the origin before it, the difference to the message's counter."""

CARRIED_BYTES: Final = STARTS_MAX * (1 + START_BYTES) + 1 + 1 + 2 + MAX_NAME + 1 + 1 + 7 + 5 + 1 + 1 + 1
"""Kind and number of each start, kind, one name, one operation (origin, counter, length), nothing closed, no
strangers, nothing spent."""

PLACE_BYTES: Final = 2 + MAX_NAME + 2 + 7
"""Of the context that an operation had when it was first sent: a name, its place, a counter."""

CONTEXT_MAX: Final = 64
"""Dots in the context of a large message. Where there are more, an empty message goes before it: then its
context is one dot."""

NAMED_BYTES: Final = 24
"""Of a name beside its letters: its length, and in a receipt its count and its places in three lists; or its
span of numbers."""


def payload_max(record_bytes: int) -> int:
    """The largest payload of an operation, where a message has up to `record_bytes`."""
    return record_bytes - MESSAGE_BYTES - CARRIED_BYTES - CONTEXT_MAX * (DOT_BYTES + PLACE_BYTES)


def small_max(record_bytes: int) -> int:
    """The longest body of a message that is not too long for any context. The names of a group do not fill a
    quarter of a frame, so no context fills half of a record."""
    return record_bytes // 2


def names_fit(names: Iterable[str], frame_bytes: int) -> bool:
    """May all of these be spoken of?"""
    return sum([len(name.encode()) + NAMED_BYTES for name in names]) <= frame_bytes // 4

"""What processes of a topology say to each other over a link: docs/protocols/separators.md, Live.

Processes are indices, which follow from the topology file: it is the same everywhere. Everything that must
not be lost is an *item*: numbered in each direction between two neighbours, kept in the sender's log until
the receiver has it in its own.

    item = kind (1 byte) body; HOP, PASSED: a message; CLOSED: processes
"""

from typing import Final, NamedTuple

HOP, PASSED, CLOSED = range(3)
"""A hop of the sender; one of another process, which was closed; processes that the sender has closed, after
all of their hops that it passes on."""

ITEM_BYTES: Final = 64
"""What a packet adds to an item at most."""


class ZoneHello(NamedTuple):
    """The first word over a link. `sent`: items to the receiver so far, of which those from `kept` on are
    still there; `have`: items of the receiver that are in the log here."""

    topology: bytes
    """A digest of the file."""
    sent: int
    kept: int
    have: int
    floor: int
    closed: tuple[int, ...] = ()
    """Neighbours that the sender goes on without."""


class ZoneItems(NamedTuple):
    """Items from `first` on. `floor`: all addressees have the sender's hops up to this one. `room`: more
    items may be sent to it. `word`: R11, with what it has to say anyway."""

    first: int
    have: int
    floor: int
    room: bool
    items: tuple[bytes, ...]
    word: tuple[int, ...] = ()


class ZoneHave(NamedTuple):
    have: int
    floor: int
    room: bool
    word: tuple[int, ...] = ()


class ZoneWord(NamedTuple):
    """R11 by itself: of each sender of which there is news for the receiver, the newest hop that was
    delivered here, as dots."""

    hops: tuple[int, ...]


class ZoneAsk(NamedTuple):
    """Have you, too, lost `who`?"""

    number: int
    """Of the question."""
    who: int


class ZoneSays(NamedTuple):
    number: int
    who: int
    lost: bool


class ZoneGone(NamedTuple):
    """The receiver was closed: the others go on without it."""

    who: int


ZonePacket = ZoneHello | ZoneItems | ZoneHave | ZoneWord | ZoneAsk | ZoneSays | ZoneGone

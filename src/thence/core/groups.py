"""What members of a changing group say to each other.

Indices stand for incarnations inside one node and differ from node to node, so here everything is spelled
with names. An *incarnation* is a process's life as a member: `b`, then `b~2` when it comes back after the
group went on without it. Dots, acknowledgements and traces name incarnations; packets are addressed to
processes.

Messages of a group are ordinary causal messages. Most carry an operation of the application; the others
change the membership, which is therefore the same wherever the same set was delivered.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

OPERATION, JOIN, LEAVE, FLUSH, CARRY, STARTED, RUN = range(7)
"""What a message is: the first byte of its payload. STARTED: the first that its sender has sent since it was
started; the number of that start follows, and then the message (`plain`). The first of an incarnation names
the start that the incarnation was installed under before that, if it is another. RUN: several operations
(`core.runs`)."""

START_BYTES: Final = 8
START_BITS: Final = 32
"""Of the number of a start that are chance; the others count starts."""
STARTS_MAX: Final = 2
"""That one message names."""
_STARTED: Final = bytes((STARTED,))

MARK: Final = "~"


def incarnation(process: str, number: int) -> str:
    """The name of a process's incarnation: the first is named like the process."""
    return process if number == 1 else f"{process}{MARK}{number}"


@lru_cache(maxsize=1 << 16)
def process_of(member: str) -> str:
    return member.partition(MARK)[0]


@lru_cache(maxsize=1 << 16)
def number_of(member: str) -> int:
    number = member.partition(MARK)[2].partition(MARK)[0]
    return int(number) if number else 1


Place = tuple[str, int]
"""A dot with its origin's name."""

Span = tuple[str, int, int]
"""A process, and numbers of its incarnations from one to another."""


def span_of(member: str) -> Span:
    """This incarnation alone."""
    number = number_of(member)
    return process_of(member), number, number


ALL: Final = (1 << 43) - 1
"""As a count: every message that an incarnation has ever sent."""


Start = tuple[int, int]
"""Of an incarnation: how many messages it had sent when its process was started, and the number of that
start, which is unlike any other. Messages above that count were sent under it, up to the next."""

Starts = tuple[Start, ...]


def timeline(member: str, start: int) -> str:
    """What an incarnation has sent under one of its starts, as an origin of operations. A process whose disk
    was put back to an earlier state gives counters twice; this tells them apart."""
    return f"{process_of(member)}{MARK}{number_of(member)}{MARK}{start}"


@lru_cache(maxsize=1 << 12)
def told_apart(origin: str) -> tuple[str, int]:
    """The incarnation, and the start (0: none is named)."""
    process, _, rest = origin.partition(MARK)
    number, mark, start = rest.partition(MARK)
    return (incarnation(process, int(number)), int(start)) if mark else (origin, 0)


def plain(payload: bytes) -> bytes:
    """A message's payload without the starts that it may name."""
    for _ in range(STARTS_MAX):
        if payload[:1] != _STARTED:
            break
        payload = payload[1 + START_BYTES :]
    return payload


def started(starts: Iterable[int], payload: bytes) -> bytes:
    """Names these starts, oldest first."""
    return b"".join([_STARTED + start.to_bytes(START_BYTES, "little") for start in starts]) + payload


def starts_named(payload: bytes) -> list[int]:
    """The starts that a payload names, oldest first."""
    named = payload[: len(payload) - len(plain(payload))]
    each = range(1, len(named), 1 + START_BYTES)
    return [int.from_bytes(named[at : at + START_BYTES], "little") for at in each]


class NamedMessage(NamedTuple):
    """A message as it travels: `payload` begins with its kind."""

    origin: str
    seq: int
    context: tuple[Place, ...]
    payload: bytes


class Running(NamedTuple):
    """What a process says of itself: the incarnation that it runs and the one that it tries to become, if any
    (else empty), and the highest number that it ever used. All others of its incarnations are dead."""

    process: str
    member: str
    attempt: str
    highest: int


class Data(NamedTuple):
    """Messages from one incarnation for another."""

    source: str
    target: str
    messages: tuple[NamedMessage, ...]


class Flow(Struct, frozen=True):
    """Over a session link: messages under a number that the receiver has given out, so that it knows their
    source and their target. They are as they stand in the sender's log, with its indices; `names` are
    those that the indices from `first` on stand for."""

    stream: int
    first: int
    names: tuple[str, ...]
    bodies: tuple[bytes, ...]


class Fragment(NamedTuple):
    """Over a session link: bytes of a message that is larger than a packet, from `offset` on, of `total`.
    Those of one message follow each other under its number, with no other message between them."""

    stream: int
    offset: int
    total: int
    data: bytes | memoryview


class FragmentReceipt(NamedTuple):
    """Under a number that was given out here, so many bytes of fragments have come, of all messages: its
    sender may go on."""

    stream: int
    came: int


class Receipt(NamedTuple):
    """What an incarnation has delivered, which members it suspects, and which it has not heard for a while.

    Over a session link it is for one `target`, says under which number (`stream`, 0: none) the source wants
    to have the target's messages, and whose messages it wants passed on. A new number means: begin anew,
    after what is counted here."""

    source: str
    counts: dict[str, int]
    suspects: tuple[str, ...]
    unheard: tuple[str, ...]
    running: Running
    target: str = ""
    stream: int = 0
    wants: tuple[str, ...] = ()
    past: tuple[Span, ...] = ()
    """Incarnations of which the source has everything, and that it does not count one by one."""
    number: int = 0
    """Of two receipts of one incarnation the newer has the higher one."""
    via: str = ""
    """The collector through which the source hears of other members' receipts; none: from themselves."""


class Passed(NamedTuple):
    """Receipts of others that a neighbour in a tree, or a collector, passes on: what they ask for is left
    out. Each says which counts have grown, and what has become past, since the last one of its source that
    was passed on."""

    receipts: tuple[Receipt, ...]


Rank = tuple[int, int, str, str]
"""How good the side of a process is; the smaller, the better: 0 a member, 1 a leaver, 2 not a member yet;
minus the size of its side; the smallest member of it; itself."""

NOBODY_YET: Final[Rank] = (2, 0, "", "")


class Extent(NamedTuple):
    """How far a program has come that has no state: per incarnation the last of its messages that it has had,
    incarnations of which it has had everything, and operations that it has had out of a CARRY."""

    counts: dict[str, int]
    past: tuple[Span, ...]
    carried: tuple[Place, ...]


class Lost(NamedTuple):
    """Messages of one incarnation that a program has missed, and that its contact does not have any more.
    Where nothing is known of it, `last` is `ALL`, and it stands for earlier ones of its process as well."""

    origin: str
    first: int
    last: int


class JoinRequest(NamedTuple):
    """`joiner` asks to be let in: by any contact, or by the contact that it is bound to, from
    which it has `have` bytes of the state number `transfer`. `address`: where links reach its process; what
    that means is between the drivers that make the links."""

    joiner: str
    contact: str
    rank: Rank
    running: Running
    transfer: int
    have: int
    address: str = ""
    since: int = 0
    """From this number on the process has tried to join and never succeeded; 0: it says nothing of that."""
    extent: Extent | None = None
    """Of one that returns with a program without a state: how far that has come."""


class Offer(NamedTuple):
    contact: str
    joiner: str


class Piece(NamedTuple):
    """Part of the state that the contact hands over."""

    contact: str
    joiner: str
    transfer: int
    offset: int
    total: int
    data: bytes | memoryview


class Notice(NamedTuple):
    """`source` goes on without `target`: with these members, and `final` messages of the target's (0: not
    known)."""

    source: str
    target: str
    members: tuple[str, ...]
    final: int


class Farewell(NamedTuple):
    """All members have the leave of `target`, its message number `final`."""

    source: str
    target: str
    final: int


class Lineage(NamedTuple):
    """Under which starts the messages were sent that `source` has delivered, and how many those are, per
    incarnation: the first word over a session link, and before anything that follows from another start.
    `yours`: what its receiver `target` has delivered, as far as it has ever told."""

    source: str
    counts: dict[str, int]
    starts: dict[str, Starts]
    target: str = ""
    yours: dict[str, int] = {}  # noqa: RUF012  # never changed


GroupPacket = (
    Data | Flow | Fragment | FragmentReceipt | Receipt | Passed | JoinRequest | Offer | Piece | Notice
    | Farewell | Lineage
)  # fmt: skip


Post = tuple[str, GroupPacket]
"""Effect: bring a packet to the process of that name."""

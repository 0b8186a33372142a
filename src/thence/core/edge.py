"""What nodes of an edge tree say to each other: docs/protocols/edge.md.

An identity is spelled by its name (`core.groups.incarnation`); packets are addressed to processes. In a
session all that a step has for a neighbour is one packet of bodies. Items name origin and group by indices
that `EdgeNames` gives out, once per session and direction.
"""

from typing import NamedTuple

Count = tuple[str, str, int]
"""Origin, group, the highest number."""


class EdgeItem(NamedTuple):
    """A message. `back`: by how much its number is above the origin's previous one in this group."""

    origin: int
    group: int
    number: int
    back: int
    payload: bytes


class EdgeRun(NamedTuple):
    """Several messages of one origin to one group, which it sent in one turn, as one item (`core.runs`):
    their numbers follow each other, `number` is that of the last."""

    origin: int
    group: int
    number: int
    back: int
    payload: bytes


class EdgeNames(NamedTuple):
    """What the next indices stand for."""

    names: tuple[str, ...]


class EdgeStatus(NamedTuple):
    """The chain that the child may attach to, this parent first. `up[k]`, `down[k]`: the last item in that
    direction which the parent and the first k nodes of its own chain have (-1: unknown)."""

    chain: tuple[str, ...]
    up: tuple[int, ...]
    down: tuple[int, ...]
    up_root: int
    down_root: int


class EdgeBeat(NamedTuple):
    """The child lives, and has so many items."""

    items: int


class EdgeWant(NamedTuple):
    """A request for groups: to join, or everything anew."""

    request: int
    groups: tuple[str, ...]
    full: bool


class EdgeState(NamedTuple):
    """The answer: what is covered, and a state per group."""

    request: int
    groups: tuple[str, ...]
    covers: tuple[Count, ...]
    states: tuple[bytes, ...]


class EdgeInvite(NamedTuple):
    """The receiver may invite `guest`, whose last session had this number."""

    guest: str
    session: int


class EdgeDrop(NamedTuple):
    groups: tuple[str, ...]


class EdgeRehome(NamedTuple):
    """The child would move below `under`, another child."""

    under: str


class EdgePlaces(NamedTuple):
    """Where processes are that the child may have to reach: names and addresses in turn."""

    words: tuple[str, ...]


class EdgePiece(NamedTuple):
    """Some bytes of a body that is larger than a packet, and how many are to come."""

    left: int
    data: bytes


class EdgeHome(NamedTuple):
    """Down: the node that the child would be below is a child of the same parent by now. Up: the process that
    the child would be below."""

    who: str


EdgeBody = (
    EdgeItem | EdgeNames | EdgeStatus | EdgeBeat | EdgeWant | EdgeState | EdgeInvite | EdgeDrop | EdgeRehome
    | EdgePlaces | EdgeHome | EdgeRun | EdgePiece
)  # fmt: skip


class EdgeUp(NamedTuple):
    """From a child to its parent."""

    session: int
    number: int
    bodies: tuple[EdgeBody, ...]


class EdgeDown(NamedTuple):
    """From a parent to a child."""

    session: int
    number: int
    bodies: tuple[EdgeBody, ...]


class EdgeAttach(NamedTuple):
    """`child` would be a child of `parent` (empty: of any identity there). `rank` 0: it never was attached.
    `have`: in the groups wanted; `logged`: the highest numbers in its log. `place`: where the child is
    reached; `home`: the process that it was told to be below."""

    child: str
    parent: str
    session: int
    rank: int
    groups: tuple[str, ...]
    have: tuple[Count, ...]
    logged: tuple[Count, ...]
    chain: tuple[str, ...]
    place: str = ""
    home: str = ""


class EdgeOpened(NamedTuple):
    parent: str
    session: int
    rank: int
    """Of the parent."""
    have: tuple[Count, ...]
    """What the parent has, where the child's log may have more."""
    covered: bool
    """The parent's log has all that the child lacks."""
    chain: tuple[str, ...]
    root: str = ""
    """The identity of the tree's root."""


class EdgeRefused(NamedTuple):
    session: int


class EdgeReset(NamedTuple):
    """The session is not known here, or over. `up`: told to the parent in it."""

    session: int
    up: bool


class EdgeInvited(NamedTuple):
    host: str
    session: int


class EdgeBye(NamedTuple):
    session: int


EdgePacket = EdgeUp | EdgeDown | EdgeAttach | EdgeOpened | EdgeRefused | EdgeReset | EdgeInvited | EdgeBye

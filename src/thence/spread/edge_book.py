"""What a node of an edge tree never forgets, and the log of what it accepted: docs/protocols/edge.md#state.

Positions number the entries of the log for as long as the process runs. Every change that must survive a
crash is told to the host in the order in which it happens: a crash may keep any beginning of a step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from thence.core.edge import Count
from thence.core.runs import payload_run

MESSAGE, STATE, INVITATION = range(3)
"""Kinds of entries."""

IN: Final = -1
"""Of a group: this node is a member. Else the position of the log at which it began to join."""

NOT: Final = -1
"""An entry neither came nor went in the present session."""

ANY: Final = 1 << 62
"""Of an entry: it may follow from all that is before it in the log."""

Pair = tuple[str, str]
"""Origin and group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    delta: int = 1
    """Consecutive ancestors whose failure is passed by."""
    heartbeat_us: int = 1_000_000
    suspect_us: int = 3_500_000
    """Silence of the parent after which another is sought: three beats may be late."""
    drop_us: int = 5_000_000
    """Silence of a child after which it is dropped; not below `suspect_us`."""
    attach_us: int = 2_000_000
    """How long a node waits for an answer to its attachment."""
    probe_us: int = 100_000
    """How long a node with a link to an ancestor waits for one to a nearer ancestor."""
    linger_us: int = 10_000_000
    """How long groups of a lost child stay wanted."""
    keep_us: int = 10_000_000
    """Least age of what leaves the log: how often a returning child needs a state."""
    alone_us: int = 30_000_000
    """How long a subtree that is cut off prefers tolerance to going on."""
    status_us: int = 1_000
    """How long news for a child waits for data to travel with."""
    window: int = 1024
    """Items under way over a session, each way."""
    window_bytes: int = 4 << 20
    """And bytes of their payloads, beyond which no further item leaves."""
    turn_bytes: int = 1 << 20
    """Of a state that are made in one turn, and of bodies that go to one neighbour: more wait."""
    packet_bytes: int = 1 << 20
    """Payloads of one packet; what is larger alone goes in pieces."""
    inbox_max: int = 8192
    """Entries in memory that wait for the program; the others are read from the log."""
    history_bytes: int = 16 << 20
    """Of log that is kept for programs that go on from a position."""
    greet_us: int = 0
    """How long, after a start with messages of its own, a node waits for a parent to say which it has of them
    before it sends more: its disk may have been put back."""
    rehome_us: int = 0
    """How long a node stays with another parent before it moves back under the one that it was told to be
    below; 0: it does not by itself."""
    gate: bool = True
    """Off only to measure what the gate costs: then the order across groups may break."""


class EdgeEntry:
    """One entry of the log. Of a state or an invitation: for which session of which child (`target`)."""

    __slots__ = (
        "above", "at", "back", "covers", "down", "full", "group", "groups", "kind", "making", "number",
        "origin", "past", "payload", "request", "rooted", "source", "span", "states", "target", "up",
    )  # fmt: skip

    def __init__(
        self,
        kind: int,
        origin: str = "",
        group: str = "",
        number: int = 0,
        back: int = 0,
        payload: bytes = b"",
        span: int = 1,
    ) -> None:
        """`span`: how many messages, of which `number` is the last; the payload of several is a run."""
        self.kind: Final = kind
        self.origin: Final = origin
        self.group: Final = group
        self.number: Final = number
        self.back: Final = back
        self.payload: Final = payload
        self.span: Final = span
        self.source = ""
        """The child or parent that it came from."""
        self.past = ANY
        """Before this position lies all of this log that it may follow from."""
        self.above = False
        """It came from a parent."""
        self.down = NOT
        """Its index among the items that came from the present parent."""
        self.up = NOT
        """Its index among the items that went there."""
        self.rooted = False
        """The root has it."""
        self.at = 0
        self.groups: tuple[str, ...] = ()
        self.covers: dict[Pair, int] = {}
        self.states: tuple[bytes, ...] = ()
        self.making: StatesInMaking | None = None
        """While its states are not made, it does not go."""
        self.request = 0
        self.full = False
        self.target: tuple[str, int] = ("", 0)

    @property
    def numbers(self) -> range:
        return range(self.number - self.span + 1, self.number + 1)

    @property
    def operations(self) -> Sequence[bytes]:
        return payload_run(self.payload) if self.span > 1 else (self.payload,)


def from_above() -> EdgeEntry:
    """A state or an invitation of an earlier life: it goes nowhere, and the root has to know what came before
    it as much as what came before a message (rule 9)."""
    entry = EdgeEntry(STATE)
    entry.above = True
    return entry


class InstalledGroup(Protocol):
    """A state that came, as a host keeps and applies it."""

    @property
    def groups(self) -> tuple[str, ...]: ...

    @property
    def covers(self) -> tuple[Count, ...]: ...

    @property
    def states(self) -> tuple[bytes, ...]: ...


class StatesInMaking(Protocol):
    """States of groups that are made in several turns."""

    @property
    def over(self) -> bool: ...

    def go_on(self, most: int) -> int:
        """Make so many bytes, or all; returns how many. `PeerError`: they are too many."""
        ...

    def states(self) -> tuple[bytes, ...]: ...


class EdgeHost(Protocol):
    """What a tree needs of its node: a log, and a program."""

    def accepted(self, entry: EdgeEntry) -> None:
        """Write it down; deliver it if this node is a member of its group."""
        ...

    def changed(self) -> None:
        """Chain, groups, coverage, rank or a counter: write them down."""
        ...

    def begin_from(self, states: Mapping[str, bytes]) -> None:
        """The program begins from these, by group. `PeerError`: it cannot; then nothing has changed."""
        ...

    def installed(self, state: InstalledGroup, full: bool, joins: str) -> None:
        """Write down that a state came: anew of all groups that it is a member of (`full`), or of a group
        that it joins by it, or to be passed on, or of no group, with an invitation. Called before anything
        changes."""
        ...

    def synced(self, giver: str, took_us: int, state: InstalledGroup) -> None:
        """For metrics: a state that this node asked for came from this parent, so long after that."""
        ...

    def install(
        self, group: str, state: bytes, covers: Sequence[Count], again: Sequence[EdgeEntry], joins: bool
    ) -> None:
        """The program goes on from here: with this state, and on top of it messages that came since the node
        began to join, or that the program had."""
        ...

    def joined(self, group: str) -> None:
        """This node is a member, from nothing on."""
        ...

    def left(self, group: str) -> None: ...

    def make_states(self, groups: Sequence[str]) -> "StatesInMaking":
        """The program's states, after everything that was accepted, and nothing that is accepted from now."""
        ...


class EdgeBook:
    __slots__ = (
        "base", "chain", "covered", "entries", "free", "gone", "groups", "have", "host", "me", "number",
        "places", "rank", "request", "root", "root_name", "session", "trimmed",
    )  # fmt: skip

    def __init__(self, me: str, root: bool, host: EdgeHost, root_name: str = "") -> None:
        """`root_name`: the identity of the root, as far as it is known."""
        self.me: Final = me
        self.root: Final = root
        self.root_name = root_name
        self.host: Final = host
        self.rank = 0
        self.free = not root
        """It was never attached."""
        self.gone = False
        """It has left the tree."""
        self.groups: dict[str, int] = {}
        self.number = 0
        """Of the last own message."""
        self.have: dict[Pair, int] = {}
        self.covered: set[str] = set()
        self.trimmed: dict[Pair, int] = {}
        self.entries: list[EdgeEntry] = []
        self.base = 0
        self.chain: tuple[str, ...] = ()
        self.session = 0
        self.request = 0
        self.places: dict[str, str] = {}
        """Where processes of the chain, and the root, are reached."""

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def is_in(self, group: str) -> bool:
        return self.groups.get(group) == IN

    def covers(self, group: str) -> bool:
        return self.root or group in self.covered

    def restricted(self, groups: Iterable[str]) -> tuple[Count, ...]:
        """What it has in these groups."""
        wanted = set(groups)
        return tuple([(*pair, number) for pair, number in self.have.items() if pair[1] in wanted])

    def logged(self) -> dict[Pair, int]:
        """The highest numbers in the log."""
        highest: dict[Pair, int] = {}
        for entry in self.entries:
            if entry.kind == MESSAGE:
                pair = entry.origin, entry.group
                highest[pair] = max(entry.number, highest.get(pair, 0))
        return highest

    def append(self, entry: EdgeEntry, now: int) -> None:
        entry.at = now
        self.entries.append(entry)

    def note(self, entry: EdgeEntry, now: int) -> None:
        """A message that is new here."""
        self.have[entry.origin, entry.group] = entry.number
        if entry.origin == self.me:
            self.number = entry.number
        self.append(entry, now)

    def merge(self, covers: Iterable[Count], groups: Iterable[str]) -> set[str]:
        """A state covers this much. Returns the groups of which it has something that was not here."""
        wanted, grown = set(groups), set[str]()
        for origin, group, number in covers:
            if group not in wanted:
                continue
            pair = origin, group
            had = self.have.get(pair, 0)
            if number > had or not self.covers(group):
                self.trimmed[pair] = max(number, self.trimmed.get(pair, 0))
            if number > had:
                self.have[pair] = number
                grown.add(group)
        return grown

    def cover(self, groups: Iterable[str]) -> None:
        self.covered.update(groups)

    def trim(self, count: int) -> None:
        for entry in self.entries[:count]:
            if entry.kind == MESSAGE:
                pair = entry.origin, entry.group
                self.trimmed[pair] = max(entry.number, self.trimmed.get(pair, 0))
        del self.entries[:count]
        self.base += count

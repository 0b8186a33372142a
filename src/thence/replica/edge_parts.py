"""What a node of an edge tree needs of its surroundings, and how a program's messages name their group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, Protocol

from thence.core.errors import ApplicationError, PeerError, UsageError
from thence.core.groups import Place
from thence.replica.edge_journal import must_be_name
from thence.spread.edge_book import EdgeBook, EdgeEntry, EdgeSettings, InstalledGroup

__all__ = [
    "EdgeDiary", "EdgeEntry", "EdgeProgram", "EdgeSettings", "GroupPayload", "LinkWishes", "Missed",
    "ProgramStates", "addressed", "missed_by", "unaddressed",
]  # fmt: skip


class EdgeDiary(Protocol):
    """Rows of the node's trace. `key` tells rows of a channel apart that say the same."""

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        *,
        channel: str = "",
        key: int = 0,
        size: int = 0,
    ) -> None: ...


class EdgeProgram(Protocol):
    """What a program does with messages and states of its groups."""

    def reads(self, group: str) -> bool:
        """It has no state of this group, and takes messages: one after the other, its own in their place."""
        ...

    def apply(self, entry: EdgeEntry, position: int, own: bool, part: int = 0) -> None:
        """A message, or a run, of a group that the node is a member of; `own`: the program has sent it.
        `part`: how many were told of at this position."""
        ...

    def state_chunks(self, group: str) -> Iterator[bytes]:
        """The state of this moment; what is not made yet is made when it is asked for."""
        ...

    def install(self, group: str, state: bytes) -> None:
        """`ApplicationError`: it cannot; it may have changed all the same."""
        ...

    def missed(self, group: str, first: Mapping[str, int], last: Mapping[str, int], position: int) -> None:
        """A state stands in for messages that the program has not had: by origin, from one to another."""
        ...

    def forget(self, group: str) -> None: ...

    def output(self) -> Sequence[Any]:
        """Events of the step."""
        ...

    def drop(self) -> None: ...


REFUSALS_MAX: Final = 3
"""States in a row from which the program cannot begin, before the node takes its word for it, and stops."""


class ProgramStates:
    """Those that a program has, and begins from. It begins from a state before that is written down: one that
    it cannot begin from, since the parent lies or is of another version, costs the parent its link."""

    __slots__ = ("_begun", "_program", "_refused")

    def __init__(self, program: EdgeProgram) -> None:
        self._program: Final = program
        self._begun: dict[str, bytes] = {}
        """By group: what it has begun from, of states that are not written down yet."""
        self._refused = 0

    def of(self, groups: Iterable[str]) -> dict[str, bytes]:
        """Whole, by group."""
        return {group: b"".join(self._program.state_chunks(group)) for group in groups}

    def begin(self, states: Mapping[str, bytes], inside: Iterable[str]) -> None:
        """`inside`: groups that the program has a state of. `PeerError`: it cannot; `ApplicationError`: nor
        could it from others before."""
        self._begun.clear()
        before = self.of([group for group in states if group in inside])
        begun: list[str] = []
        for group, state in states.items():
            begun.append(group)
            try:
                self._program.install(group, state)
            except ApplicationError as error:
                for each in begun:
                    self._program.install(each, before.get(each, b""))
                self._refused += 1
                if self._refused >= REFUSALS_MAX:
                    raise
                raise PeerError(f"a state of {group!r}: {error}") from error
        self._begun.update(states)
        self._refused = 0

    def install(self, group: str, state: bytes) -> None:
        """As far as that was not done."""
        if self._begun.pop(group, None) is not state:
            self._program.install(group, state)


Missed = dict[str, tuple[dict[str, int], dict[str, int]]]
"""By group and origin: from which message, and to which."""


def missed_by(book: EdgeBook, state: InstalledGroup) -> Missed:
    """What the node does not have of its groups, and a state that comes stands in for."""
    missed: Missed = {}
    for origin, group, number in state.covers:
        had = book.have.get((origin, group), 0)
        if book.is_in(group) and number > had:
            first, last = missed.setdefault(group, ({}, {}))
            first[origin], last[origin] = had + 1, number
    return missed


class LinkWishes:
    """Links that the world was asked for."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def changed(self, wanted: Set[str], places: Mapping[str, str]) -> dict[str, str | None] | None:
        """Processes that a link is wanted to by now, and where; None: to that one it is not any more."""
        known = self._known
        if known.keys() == wanted and all(known[name] == places.get(name, "") for name in wanted):
            return None
        self._known = fresh = {name: places.get(name, "") for name in sorted(wanted)}
        links = dict[str, str | None](dict.fromkeys(sorted(known.keys() - fresh.keys())))
        return links | {name: at for name, at in fresh.items() if known.get(name) != at}


class GroupPayload(bytes):
    """A payload for `broadcast`, with the group that it is for. Not any bytes: those would be taken apart."""

    __slots__ = ()


def addressed(group: str, payload: bytes) -> GroupPayload:
    name = must_be_name(group, "a group").encode()
    return GroupPayload(bytes((len(name),)) + name + payload)


def unaddressed(data: bytes) -> tuple[str, bytes]:
    if not isinstance(data, GroupPayload):
        raise UsageError("on an edge tree a message goes to a group: multicast(payload, group=…)")
    length = data[0]
    return bytes(data[1 : 1 + length]).decode(), bytes(data[1 + length :])

"""The contract between a machine and the steps that run it: docs/protocols/steps.md.

A machine is one process of a group, whatever the group is like. It takes inputs with `now`, gathers records
in its log and rows in its trace, and gives what it has for the world when it is asked (`output`). It calls
nothing back in the middle of a step.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import Place
from thence.core.machine import Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.replica.events import Repeated
from thence.replica.life_tag import LifeTag, Sent

P = TypeVar("P")
"""A packet."""


Output = tuple[Sequence[tuple[str, Any]], Mapping[str, str | None] | None, Sequence[Any]]
"""What a machine has for the world since it was last asked: packets, each with the name of the peer that it
goes to; if that has changed, peers to keep links with from now on, each with its address (empty: it is
known), and those whose links are not needed any more (None); what the program is to be told."""


def must_fit(payloads: Sequence[bytes], most: int) -> None:
    """`UsageError` for what no message could hold."""
    longest = max(map(len, payloads), default=0)
    if longest > most:
        raise UsageError(f"a payload of {longest} bytes: an operation has up to {most}")


class Machine(Protocol[P]):
    @property
    def log(self) -> OpLog | None:
        """Where this process writes at present."""
        ...

    @property
    def wake_at(self) -> int:
        """When `wake` is due."""
        ...

    @property
    def waiting(self) -> int:
        """How much there is for the program to take."""
        ...

    @property
    def in_debt(self) -> bool:
        """New broadcasts wait: operations from before a return are to be sent again first."""
        ...

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Incarnations whose last messages the group has to settle before that."""
        ...

    @property
    def refuses(self) -> ThenceError | None:
        """Why no broadcast can be made at present."""
        ...

    def encode(self, packet: P) -> bytes: ...

    def decode(self, data: bytes) -> P:
        """`PeerError`: it is none."""
        ...

    def link_up(self, peer: str, now: int) -> None: ...

    def link_down(self, peer: str, now: int) -> None: ...

    def receive(self, peer: str, packet: P, now: int) -> None:
        """`PeerError` if no correct peer sends this; then nothing has changed."""
        ...

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        """`UsageError` if one of them cannot be sent."""
        ...

    def take(self, limit: int, now: int) -> int:
        """The program takes up to `limit` messages; how many it took. Messages that concern no program are
        taken in any case, as soon as they come first."""
        ...

    def wake(self, now: int) -> None: ...

    def commit(self, now: int) -> Sequence[DiskSync | Wake]:
        """Write what the step has gathered; what the log wants synced, and when it wants to be woken."""
        ...

    def output(self) -> Output: ...

    def drop(self) -> None:
        """The step never happened: nothing of it is for the world."""
        ...

    # What a program asks

    @property
    def me(self) -> str:
        """The incarnation that this process runs. `UsageError`: it is no member."""
        ...

    @property
    def members(self) -> tuple[str, ...]: ...

    @property
    def position(self) -> int:
        """Of what was taken last."""
        ...

    def tag(self, place: Place) -> LifeTag:
        """Of an operation that was delivered here. `UsageError`: it was not, or there are no tags."""
        ...

    @property
    def sent(self) -> int:
        """The counter of the last message that this member has sent."""
        ...

    def delivered(self) -> dict[str, int]:
        """Per member, up to where its messages were delivered here."""
        ...

    def has_delivered(self, place: Place) -> bool: ...

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        """Is this message stable, or delivered at so many members? `UsageError`: it never will be."""
        ...

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        """What comes after a position, up to what was taken by now, for a program that has forgotten it; with
        what it sent itself (`own`), or without. None: others should have their turn. It
        holds as long as the machine, and its log, are the same.
        `UsageError`: there is no such position."""
        ...

    def untidy(self, now: int) -> bool:
        """Is there enough to be written anew, or collected?"""
        ...

    def tidy(self, now: int) -> None:
        """Between two steps, when all outputs have left: shorten the log."""
        ...


class Untagged:
    """What a program may ask in vain where messages have no tags, and are not for all members."""

    __slots__ = ()

    no_tags: ClassVar[str]
    no_counts: ClassVar[str]

    def tag(self, place: Place) -> LifeTag:
        raise UsageError(f"{place[0]}:{place[1]} has no tag: {self.no_tags}")

    def delivered(self) -> dict[str, int]:
        raise UsageError(self.no_counts)

    def has_delivered(self, place: Place) -> bool:
        del place
        raise UsageError(self.no_counts)

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        del tag, at
        raise UsageError(f"{self.no_tags}, and nothing is told as stable")

"""What a member of a changing group needs from its surroundings."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from thence.core.groups import Lost, Place
from thence.core.tag import Tag
from thence.members.operations import Operation as Operation
from thence.oplog.log import OpLog
from thence.replica.events import Delivered
from thence.replica.life_tag import Book, LifeTag


class Applied(Struct, frozen=True):
    """An operation that takes effect."""

    operation: Operation
    own: bool = False
    tag: LifeTag | None = None
    """Of the message that it came in, if there are tags."""
    again: bool = False
    """A program that reads had it in an earlier incarnation."""
    position: int = 0
    carried: bool = False
    """It came in a CARRY."""


class Application(Protocol):
    """The program that gets the operations. Its state is opaque to the middleware and always that of all that
    was applied."""

    @property
    def reads(self) -> bool:
        """It has no state, and takes messages: what it missed is of use to it."""
        ...

    def apply(self, one: Applied) -> None:
        """An operation takes effect, after everything that it follows from; each once."""
        ...

    def missed(self, operation: Operation, tag: LifeTag | None, position: int) -> None:
        """Rule 33: one that reads takes an operation from before this incarnation, which it has not had."""
        ...

    def lost(self, what: tuple[Lost, ...], holders: tuple[str, ...], position: int) -> None:
        """And those that it will not get. `holders`: the members that had them."""
        ...

    def stable(self, found: Sequence[LifeTag]) -> None:
        """Every member has these operations. After a restart, once more those that came after the state, or
        that were not stable in it."""
        ...

    def output(self) -> Sequence[object]:
        """What the program is to be told of the step, which is committed."""
        ...

    def drop(self) -> None:
        """The step never happened."""
        ...

    def state(self) -> bytes: ...

    def install(self, state: bytes) -> None:
        """Begin anew from this state. `ApplicationError`: it cannot; it may have changed all the same."""
        ...

    def view_changed(self, members: tuple[str, ...], me: str) -> None:
        """These are the members from now on, and this process is one of them as `me`."""
        ...

    def sends_again(self, orphan: "Orphan") -> bool:
        """The member is about to come back as a new incarnation, and the group never had this operation,
        which was applied here before: is it to be sent again? May be asked more than once."""
        ...

    def orphaned(self, orphan: "Orphan") -> None:
        """It has come back, and this is, or is not, sent again."""
        ...


class Merging(Application, Protocol):
    """A program, as a tree without tags sees it."""

    @property
    def holds(self) -> bool:
        """Is it a state?"""
        ...

    def doubted(self, doubts: Sequence[LifeTag], late: LifeTag) -> None:
        """These were perhaps applied too early: `late`, which they may follow from, comes now."""
        ...

    def merge(self, state: bytes) -> None:
        """Take a peer's state in: the same operations give the same state, whichever of them came one by
        one and whichever in a state. `ApplicationError`: it cannot."""
        ...


class OperationRun(NamedTuple):
    """Operations of one message, with consecutive counters, none of which came before."""

    origin: str
    first: int
    payloads: list[bytes]
    tag: Tag
    """Of the message."""
    life: str
    book: Book
    position: int
    """Of the message: that of the first operation is one higher, and so on."""
    own: bool

    def tag_of(self, at: int) -> LifeTag:
        return LifeTag(self.tag, self.life, (self.origin, self.first + at), self.book)

    def each(self) -> Iterator[Applied]:
        """The same one by one."""
        for at, payload in enumerate(self.payloads):
            operation = Operation(self.origin, self.first + at, payload)
            yield Applied(operation, self.own, self.tag_of(at), position=self.position + at + 1)


@runtime_checkable
class TakesRuns(Protocol):
    """An application that takes the operations of a message together."""

    def apply_run(self, run: OperationRun) -> None:
        """All of them take effect, in order: `apply` for each would say the same."""
        ...


@runtime_checkable
class TakesEvents(Protocol):
    """An application that takes an operation as the event that its program is told."""

    def deliver(self, event: Delivered, own: bool) -> None:
        """It takes effect, for the first time, and was not carried: `apply` would say the same."""
        ...


@runtime_checkable
class GivesChunks(Protocol):
    """An application whose state may be too large to be made in one step."""

    def state_chunks(self) -> Iterator[bytes]:
        """The bytes of `state` as it is now. They may be made when they are asked for, in later steps, and
        are those of this moment all the same."""
        ...


class Orphan(NamedTuple):
    """An operation that the group never had."""

    operation: Operation
    tag: Tag | None
    """Of the message that brought it, as the former incarnation saw it, if it was not stable there."""
    life: str
    """That incarnation."""
    again: bool = True
    """It is sent again; not what the application has declined, nor what follows from that."""


class Diary(Protocol):
    """Where one incarnation writes its trace; names, not indices. Rows that were written before are not
    written again: after a restart the log is told once more."""

    @property
    def writes(self) -> bool:
        """Does it take rows?"""
        ...

    @property
    def ended(self) -> bool:
        """Was it told that the incarnation is down for good?"""
        ...

    def is_ahead(self, count: Callable[[str], int]) -> bool:
        """Was it told of more messages than these counts?"""
        ...

    def has_row(self, kind: int, about: Place) -> bool:
        """Would this row be passed over: an earlier start has written it?"""
        ...

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        carries: tuple[Place, ...] = (),
        *,
        size: int = 0,
    ) -> None:
        """`carries`: the operations that a message brings if it is not an operation itself. `size`: of what
        is delivered, the bytes that its sender's program gave; of a state that came, its own."""
        ...


class Closed:
    """A diary that takes no rows: no trace is wanted, or its incarnation has left, or was put back to an
    earlier state."""

    __slots__ = ()

    writes: Final = False
    ended: Final = False

    def is_ahead(self, count: Callable[[str], int]) -> bool:  # noqa: ARG002
        return False

    def has_row(self, kind: int, about: Place) -> bool:  # noqa: ARG002
        return True

    def row(self, kind: int, about: Place | None, *rest: object, **more: object) -> None:
        """Nothing."""


class Shelf(Protocol):
    """A process's disk: a log per incarnation, by number."""

    @property
    def highest(self) -> int:
        """The highest number that was ever reserved."""
        ...

    @property
    def since(self) -> int:
        """From this number on no attempt to join has succeeded; 0: there was none, or it is not known."""
        ...

    def kept(self) -> list[int]:
        """Numbers of the incarnations that have a log, ascending."""
        ...

    def reserve(self, number: int, since: int = 0) -> None:
        """This number will not be used again, whatever happens. Durable when it returns."""
        ...

    def open(self, number: int, now: int) -> OpLog:
        """The log of an incarnation, booted; a new one if there is none."""
        ...

    def drop(self, number: int) -> None:
        """The log of an attempt that came to nothing, or of an incarnation that was replaced."""
        ...

    def forget(self) -> None:
        """The newest log counts as one that may lack its end, until another incarnation has begun. Durable
        when it returns."""
        ...

    def keep_contacts(self, contacts: dict[str, str]) -> None:
        """Other processes of the group, and where they are. The first ones are durable when it returns."""
        ...

    def catch_up(self) -> None:
        """Write down what was put off."""
        ...

    def ended(self, number: int, since: int) -> None:
        """An incarnation that was a member is none any more, nor is its log needed. `since`: what `since` is
        from now on; durable before the log goes."""
        ...

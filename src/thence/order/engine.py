"""The interface of every ordering engine, in two halves and a witness.

What defines the tag of a message is what the *client* has seen at the moment of its call, not what
the middleware has made ready meanwhile (section 3.6 of the tagged causal broadcast document). So an
engine has two halves with a queue in either direction between them:

* the `Tagger` lives at the client. `tag` stamps a message as part of the send, before any queue;
  `took` hears of a delivery just before the application acts on it.
* the `Orderer` lives in the middleware. `sent` takes the client's messages from their queue,
  `receive` takes what the spread brings, and both return what has become deliverable.

The `Witness` stands beside the tagger and remembers what the client has seen that is not stable: it makes
the tags that the application compares, and finds out what has become causally stable. A client that
wants neither does without it.

Later engines fit without change: `dest` and `via` are for messages addressed to some members and
forwarded hop by hop (an engine asks for that with `Forward`), `Doubt` is for engines that may err,
and `admit` tells both halves of a member that came.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.tags import TagSpill

SEPARATOR: Final = "separator"
"""The engine that is made where there is a topology (`order/separator.py`)."""


class Tagger(Protocol):
    """The client's half: opaque to the application, kept at its side of the queues."""

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        """Stamp a message with the next dot and everything that this client has seen."""
        ...

    def took(self, message: Message) -> None:
        """The client takes `message` from its queue: whatever it sends from now on follows it."""
        ...

    def admit(self, member: int) -> None:
        """`member`, the next free index, belongs to the group from now on."""
        ...

    def recall(self, message: Message) -> None:
        """After a restart: this client had seen `message`, sent by itself or by another."""
        ...

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        """After a restart: this client had sent so many messages, and had seen what `context` stands for."""
        ...

    def context(self) -> tuple[int, ...]:
        """What this client has seen, as a stamp: what a phantom tells."""
        ...

    def frontier(self) -> tuple[int, ...]:
        """The same as dots: the newest messages, from which everything seen follows."""
        ...


class Witness(Protocol):
    """What one client has seen and not all members are known to have seen."""

    def __len__(self) -> int:
        """How many messages are not stable."""
        ...

    @property
    def drained(self) -> bool:
        """Everything seen is stable, and no member spoke of anything that was not seen."""
        ...

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        """Keep about `deep` tags in memory, and the older ones in the attic."""
        ...

    def see(self, message: Message) -> Tag:
        """The client takes a message, or sends one; it has seen everything that this follows from."""
        ...

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        """A phantom: `member` has seen everything that this stamp stands for."""
        ...

    def resume(self, counters: tuple[int, ...]) -> None:
        """After a restart: everything up to these counters had been seen, and was stable."""
        ...

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        """After a restart: of what was seen, everything up to these counters had been announced."""
        ...

    def tag_of(self, dot: int) -> Tag | None:
        """The tag of a message that was seen and is not stable."""
        ...

    def sweep(self) -> Sequence[Tag]:
        """What has become causally stable since the last sweep, causes first; while there are tags in the
        attic, perhaps not all of it at once."""
        ...

    def reached(self, dot: int) -> int:
        """At how many members, this one included, a message that was seen is known to be delivered."""
        ...

    def words(self) -> int:
        """Metadata kept, in words of eight bytes, as section 8.3.1 of the document counts it."""
        ...

    def behind(self) -> list[int]:
        """The members that are not known to have seen everything that is not stable."""
        ...

    def silent(self) -> list[int]:
        """The members that hold the oldest unstable message back."""
        ...


class Orderer(Protocol):
    """The middleware's half: holds messages back until everything they depend on was released."""

    @property
    def waiting(self) -> int:
        """How many received messages are held back."""
        ...

    def words(self) -> int:
        """Metadata kept, in words of eight bytes, as section 8.3.1 of the document counts it."""
        ...

    def stamp(self, message: Message) -> Message:
        """A message of this node's own client is about to leave: what leaves. The same, unless the
        middleware keeps a stamp of its own."""
        ...

    def resume(self, counters: tuple[int, ...]) -> None:
        """After a restart: everything up to these counters had been released."""
        ...

    def check(self, message: Message) -> None:
        """`PeerError` if no correct member can have sent this: it would wait for ever, or worse."""
        ...

    def sent(self, message: Message, now: int) -> list[OrderEffect]:
        """A message of this node's own client leaves."""
        ...

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        """A message arrives from the neighbour `via`, perhaps for the second time."""
        ...

    def admit(self, member: int) -> None:
        """`member`, the next free index, belongs to the group from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """How to make the two halves for member `me` of a group of `size`, and what the stamps mean."""

    name: str
    tagger: Callable[[int, int], Tagger]
    orderer: Callable[[int, int], Orderer]
    predecessors: Callable[[Message], tuple[int, ...] | None]
    """The dots that a message's stamp spells out; None where the engine records no context."""
    witness: Callable[[int, int], Witness] | None = None
    """None where the engine's stamps tell nothing."""
    prompt: bool = True
    """Every message is released at the first moment that causality allows."""
    stamps_are_dots: bool = True
    """How stamps are encoded: as dots, or as counters by member."""
    entries: int = 0
    """Stamps are clocks of so many entries, which members share; 0: they are not."""
    exact: bool = True
    """No message is ever released before its causes."""
    hops: bool = False
    """Messages are addressed, travel hop by hop, and their stamps are those of the last hop."""

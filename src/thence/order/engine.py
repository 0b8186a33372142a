"""The interface of every ordering engine, in two halves.

What defines the tag of a message is what the *client* has seen at the moment of its call, not what
the middleware has made ready meanwhile (section 3.6 of the tagged causal broadcast document). So an
engine has two halves with a queue in either direction between them:

* the `Tagger` lives at the client. `tag` stamps a message as part of the send, before any queue;
  `took` hears of a delivery just before the application acts on it.
* the `Orderer` lives in the middleware. `sent` takes the client's messages from their queue,
  `receive` takes what the spread brings, and both return what has become deliverable.

Later engines fit without change: `dest` and `via` are for messages addressed to some members and
forwarded hop by hop (an engine asks for that with `Forward`), `Doubt` is for engines that may err,
and `admit` tells both halves of a member that came.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from thence.core.machine import OrderEffect
from thence.core.message import Message


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


class Orderer(Protocol):
    """The middleware's half: holds messages back until everything they depend on was released."""

    @property
    def waiting(self) -> int:
        """How many received messages are held back."""
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

"""What a driver has around it: callers, links to peers, the node and its program."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from thence.core.groups import Flow
from thence.replica.life_tag import Sent


class Call(Protocol):
    """How an answer finds its caller: a future, or less than one."""

    def done(self) -> bool: ...

    def set_result(self, sent: Sequence[Sent], /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


Waited = asyncio.Future[Sequence[Sent]]


def refuse(calls: Iterable[Call], error: Exception) -> None:
    for call in calls:
        if not call.done():
            call.set_exception(error)


class Outlet(Protocol):
    """Links to peers, by name."""

    def send(self, peer: str, packets: Sequence[bytes]) -> None: ...

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[Any]:
        """Packets that came over a link, as the machine understands them. `PeerError`: garbage."""
        ...

    def keep(self, links: Mapping[str, str | None]) -> None:
        """Keep links with these peers, at these addresses; None: not any more."""
        ...

    def begin_anew(self, why: str) -> None:
        """Drop every link, and make none while the process cannot write."""
        ...


def send_each(outlet: Outlet, posts: Sequence[tuple[str, Any]], encode: Callable[[Any], bytes]) -> None:
    """One write for each peer; a packet that may go to several, as all but flows do, is encoded once."""
    known = dict[int, bytes]()
    by_peer: dict[str, list[bytes]] = {}
    for peer, packet in posts:
        if type(packet) is Flow:
            data = encode(packet)
        elif (kept := known.get(id(packet))) is not None:
            data = kept
        else:
            data = known[id(packet)] = encode(packet)
        if peer in by_peer:
            by_peer[peer].append(data)
        else:
            by_peer[peer] = [data]
    for peer, packets in by_peer.items():
        outlet.send(peer, packets)


class Sink(Protocol):
    """The node and its program."""

    def appetite(self) -> int:
        """How many messages the program would take now."""
        ...

    def tell(self, events: Sequence[Any]) -> None: ...

    def stepped(self, now: int) -> None:
        """Something may have changed."""
        ...

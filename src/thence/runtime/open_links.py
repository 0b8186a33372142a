"""Links of a process in a changing group: any process that knows the secret may come, known or not.

A joiner knows its contact before the contact knows the joiner, so either side may dial. The one with the
smaller name does it first; the other waits a while before it does, unless it is told to begin (a joiner).
While the smaller one dials, it takes no call from the larger one: one of two attempts that meet must win.

A *guest* is a peer whose address is not known here, or not needed any more: it is not dialled, and forgotten
when its link goes down. Joiners begin as guests, leavers end as such. There is room for some, from one host
and in all. Where it is full, the guest that has been silent for longest gives way if that is as long as a
link may be silent; else the newcomer is refused, told why, and may come again. Members never count nor give
way.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from thence.runtime.address import Address
from thence.runtime.descriptors import share
from thence.runtime.handshake import Acceptor
from thence.runtime.hello import Identity, Introduction, Purpose, RefusalError
from thence.runtime.link import Connection, End
from thence.runtime.link_handler import Handler
from thence.runtime.links import Links
from thence.runtime.listening import Log
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, LinkLimits
from thence.runtime.peer import Peer, PeerStage

PATIENCE_US: Final = 1_500_000
"""How much later the larger name dials: the smaller one, if it runs, has had several tries by then."""

NOWHERE: Final = Address("", 0)


class OpenLinks(Links):
    foresees: bool = False
    """Faults may be asked for with processes that are not known yet: any may become a peer."""

    def __init__(
        self,
        me: Identity,
        secret: bytes,
        listen: Address,
        settings: LinkSettings,
        handler: Handler,
        random: Random,
        clock: Clock,
        log: Log,
        answer: Callable[[Introduction], bytes],
        others: Callable[[], Iterable[str]] = tuple,
        *,
        limits: LinkLimits | None = None,
    ) -> None:
        """`answer`: what to tell those that ask for the group. `others`: processes to which there may be a
        link one day."""
        self._open_answer: Final = answer
        self._others: Final = others
        super().__init__(me, secret, listen, {}, settings, handler, random, clock, log, limits=limits)

    def know(self, name: str, address: Address, *, at_once: bool = False) -> None:
        """A peer and where it is. `at_once`: it may not know this process, so dial whatever its name."""
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = Peer(name, address, dials=True, now=self._clock())
        elif peer.dials and peer.address == address:
            return
        else:
            peer.address, peer.dials = address, True
            if peer.stage is not PeerStage.IDLE:
                return
        self._dial_after(peer, 0, patient=not at_once)

    def dismiss(self, name: str, close_after_us: int | None = None) -> None:
        """This end needs it no more; a link that is up stays until its other end closes it, or for so
        long."""
        peer = self._peers.get(name)
        if peer is None or not peer.dials:
            return
        peer.dials = False
        peer.stop_dialling()
        self._forget(peer)
        if peer.link is not None and close_after_us is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(close_after_us / 1_000_000, self._safely, self._part, peer, peer.link)

    def _part(self, peer: Peer, link: Connection) -> None:
        if peer.link is link and not peer.dials:
            link.end(End.CLOSED, "not needed")

    def _forget(self, peer: Peer) -> None:
        """One that is not needed and has no link; unless a fault is to last."""
        if not (peer.link or peer.dials or peer.cut or peer.delay_us):
            self._peers.pop(peer.name, None)

    def _named(self) -> list[str]:
        return sorted({*self._peers, *self._others()})

    def _known(self, name: str) -> Peer:
        foreseen = self.foresees and name != self._me.name
        if name not in self._peers and (foreseen or name in self._named()):
            self._peers[name] = Peer(name, NOWHERE, dials=False, now=self._clock())
        return super()._known(name)

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        if self.foresees and peer is not None and peer != self._me.name and peer not in self._peers:
            self._peers[peer] = Peer(peer, NOWHERE, dials=False, now=self._clock())
        super().fault(what, peer, delay_us)

    def mend(self, peer: str) -> None:
        super().mend(peer)
        self._forget(self._known(peer))

    def slow(self, peer: str, delay_us: int) -> None:
        super().slow(peer, delay_us)
        self._forget(self._known(peer))

    def knows(self, name: str) -> bool:
        return name in self._peers

    def linked(self, name: str) -> bool:
        peer = self._peers.get(name)
        return peer is not None and peer.stage is PeerStage.UP

    def host_of(self, name: str) -> str:
        """The machine that the link of a peer comes from."""
        peer = self._peers.get(name)
        return peer.link.host if peer is not None and peer.link is not None else ""

    # Differences.

    def _dial_after(self, peer: Peer, delay_us: int, patient: bool = True) -> None:
        if patient and self._me.name > peer.name:
            delay_us += PATIENCE_US
        super()._dial_after(peer, delay_us)

    def _expects(self, hello: Introduction) -> str | None:
        name = hello.identity.name
        if hello.aim is Purpose.ASK:
            return None
        if name == self._me.name:
            return f"two nodes are called {name}"
        peer = self._peers.get(name)
        if peer is not None and peer.cut:
            raise RefusalError("cut on request", told=None)
        if peer is not None and peer.stage is PeerStage.DIALLING and self._me.name < name:
            return f"{self._me.name} dials {name} at this moment"
        return None

    def _admit(self, theirs: Introduction, host: str = "") -> str | None:
        if theirs.aim is Purpose.LINK and theirs.identity.name not in self._peers:
            return self._make_room(host) or self._handler.admit(theirs.identity)
        peer = self._peers.get(theirs.identity.name)
        if peer is not None and peer.link is None:
            peer.last = None  # the last one is gone; a folder that was put back counts boots again
        return super()._admit(theirs, host)

    def _make_room(self, host: str) -> str | None:
        """For a guest from this host; why there is none, if so."""
        guests = [peer for peer in self._peers.values() if peer.link is not None and not peer.dials]
        most = share(self._settings.guests_max)
        near = [peer for peer in guests if peer.link is not None and peer.link.host == host]
        crowd = near if len(near) >= min(most, self._settings.guests_per_host_max) else guests
        if crowd is guests and len(guests) < most:
            return None
        idle = min(crowd, key=lambda peer: peer.heard_us)
        if idle.link is not None and self._clock() - idle.heard_us >= self._settings.silence_us:
            idle.link.end(End.CLOSED, "a guest that says nothing gives way", tell="gives way to others")
            return None
        where = f" from {host}" if crowd is near else ""
        return f"{self._me.name} has no room for more than {len(crowd)} guests{where}: come again later"

    def _answer(self, hello: Introduction) -> bytes:
        return self._open_answer(hello)

    def _welcome(self, name: str, connection: Connection) -> Peer | None:
        if name not in self._peers:
            full = self._make_room(connection.host)  # others came while they shook hands
            if full is not None:
                connection.end(End.REFUSED, full, tell=full)
                return None
            self._peers[name] = Peer(name, NOWHERE, dials=False, now=self._clock())
        return super()._welcome(name, connection)

    def connection_down(self, connection: Connection, end: End, why: str) -> None:
        handshake = connection.handshake
        hello = handshake.hello if isinstance(handshake, Acceptor) else None
        peer = self._peers.get(hello.identity.name) if hello is not None else None
        silent = peer is not None and peer.stage in (PeerStage.CUT, PeerStage.DIALLING)
        if silent and self._listener.forget(connection):
            return  # nothing that an operator needs to read about: it calls again
        super().connection_down(connection, end, why)

    def _link_down(self, peer: Peer, end: End, why: str) -> None:
        super()._link_down(peer, end, why)
        self._forget(peer)

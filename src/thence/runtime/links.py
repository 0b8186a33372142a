"""All links of one node: exactly one per peer, kept up, watched, replaced, counted.

The member with the smaller name dials; the other one listens. The dialling one keeps trying; the listening
one believes the newest proven connection, since its other end would not have opened it if the old one lived.

The handler is never called from inside a call that it makes itself (`write`, `cut_off`, `cut`, …): that a
link went down is told from the event loop, and always before the same peer is told to be up again. What goes
wrong in here, and is no peer's fault, is told as well (`link_bug`): it would go unnoticed else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, ParamSpec

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.dialling import Dialler
from thence.runtime.election import Founded, put_answer
from thence.runtime.frames import join
from thence.runtime.handshake import Acceptor, HandshakePolicy
from thence.runtime.hello import (
    Identity,
    Introduction,
    Purpose,
    RefusalError,
    draw_instance,
)
from thence.runtime.link import Connection, End
from thence.runtime.link_handler import Handler
from thence.runtime.listening import Connections, Listener, Log
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, LinkLimits, backoff_us, upper_half_us
from thence.runtime.peer import LinkStatus, Peer, PeerStage

P = ParamSpec("P")

__all__ = ["Handler", "Identity", "LinkStatus", "Links", "Log"]


class Links:
    def __init__(
        self,
        me: Identity,
        secret: bytes,
        listen: Address,
        peers: Mapping[str, Address],
        settings: LinkSettings,
        handler: Handler,
        random: Random,
        clock: Clock,
        log: Log,
        *,
        limits: LinkLimits | None = None,
        advertise: Address | None = None,
    ) -> None:
        """`advertise`: where others reach this node, if that is not where it listens."""
        me.check()
        self._me: Final = me
        self._advertise: Final = advertise
        self._settings: Final = settings
        self._frame_bytes_max: Final = settings.frame_bytes_max
        self._limits: Final = limits or LinkLimits()
        self._handler: Final = handler
        self._random: Final = random
        self._clock: Final = clock
        self._log: Final = log
        self._instance: Final = draw_instance()
        self._peers: dict[str, Peer] = {}
        self._connections: Final = Connections()
        judge = HandshakePolicy(self._expects, self._admit, self._answer)
        self._listener: Final = Listener(
            me, self._instance, secret, judge, self, settings, self._limits, clock, log
        )
        self._dialler: Final = Dialler(
            self, me, self._instance, secret, self._admit, settings, self._limits, clock
        )
        self._downs: deque[tuple[str, str]] = deque()
        self._running = False
        self._broken = False
        self.address = listen
        """Where it listens: with the port that the system chose, once started."""
        for name, address in peers.items():
            self.add_peer(name, address)

    # Life.

    async def start(self) -> None:
        self.address = await self._listener.start(self.address)
        self._running = True
        for peer in self._peers.values():
            self._keep_up(peer, 0)

    async def close(self) -> None:
        """Sends what is buffered, for a moment; afterwards nothing of this is left on the event loop."""
        self._running = False
        for peer in self._peers.values():
            peer.stop_dialling()
        await self._listener.stop()
        await self._dialler.ended()
        await self._connections.end_all("this node stops", self._limits.drain_us)
        self._safely(self._tell_downs)

    def add_peer(self, name: str, address: Address) -> None:
        if name == self._me.name:
            raise UsageError(f"{name} cannot be its own peer")
        if name in self._peers:
            raise UsageError(f"{name} is a peer already")
        peer = Peer(name, address, dials=self._me.name < name, now=self._clock())
        self._peers[name] = peer
        self._keep_up(peer, 0)

    def remove_peer(self, name: str) -> None:
        peer = self._known(name)
        if peer.link is not None:
            peer.link.end(End.CLOSED, "no longer a peer", tell="no longer a member")
        peer.stop_dialling()
        del self._peers[name]

    # What the node calls.

    def write(self, peer: str, packets: Sequence[bytes]) -> None:
        """All of them at once; nothing happens if there is no link to this peer."""
        known = self._peers.get(peer)
        if known is None or known.link is None or not packets:
            return
        data = join(packets, self._frame_bytes_max)
        known.frames_out += len(packets)
        known.bytes_out += len(data)
        known.link.send(data)

    def queued(self, peer: str) -> int:
        """Bytes that wait to be sent to this peer."""
        known = self._peers.get(peer)
        return 0 if known is None or known.link is None else known.link.queued_bytes

    def cut_off(self, peer: str, why: str) -> None:
        """It misbehaved: its link is closed, and not opened again for a good while."""
        known = self._peers.get(peer)
        if known is not None and known.link is not None:
            known.link.end(End.MISBEHAVED, why, tell=f"cut off: {why}")

    def status(self) -> dict[str, LinkStatus]:
        return {name: peer.status() for name, peer in sorted(self._peers.items())}

    def begin_anew(self) -> None:
        """Drop every link that is up, and make it again. A peer that is forgotten with its link comes back by
        itself."""
        self._safely(self._begin_anew)

    def _begin_anew(self) -> None:
        for name, link in self.status().items():
            if link.up and not link.cut:
                self.cut(name)
                if name in self._peers:
                    self.mend(name)

    # Faults on request, for trials.

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        """`cut`, `slow` or `mend` the link to a peer, or to all of them."""
        names = self._named()
        if peer is not None and peer not in names:
            raise UsageError(f"{peer} is no peer of {self._me.name}; there is {', '.join(names)}")
        for name in names if peer is None else [peer]:
            if what == "cut":
                self.cut(name)
            elif what == "slow":
                self.slow(name, delay_us)
            else:
                self.slow(name, 0)
                self.mend(name)

    def cut(self, peer: str) -> None:
        """As if the network between the two were gone: the link is dropped, none is made or accepted."""
        known = self._known(peer)
        known.cut_on_request()
        self._not_to_be_had(known, "cut on request")

    def mend(self, peer: str) -> None:
        known = self._known(peer)
        known.mended()
        if known.link is None:
            known.stop_dialling()
            self._not_to_be_had(known, "it was cut")
            self._keep_up(known, 0)

    def slow(self, peer: str, delay_us: int) -> None:
        """Whatever is written to this peer leaves so much later; 0: at once again."""
        if delay_us < 0:
            raise UsageError(f"a link cannot be made faster than it is: {delay_us} µs of delay")
        known = self._known(peer)
        known.delay_us = delay_us
        if known.link is not None:
            known.link.slow(delay_us)

    def _named(self) -> list[str]:
        return sorted(self._peers)

    def _known(self, name: str) -> Peer:
        if name not in self._peers:
            raise UsageError(f"{name} is no peer of {self._me.name}")
        return self._peers[name]

    # Dialling.

    def _keep_up(self, peer: Peer, delay_us: int) -> None:
        """See to it that there is a link again, if that is not left to the node."""
        self._dial_after(peer, delay_us)

    def _dial_after(self, peer: Peer, delay_us: int) -> None:
        if self._running and peer.dials and peer.stage is PeerStage.IDLE:
            loop = asyncio.get_running_loop()
            peer.waits(loop.call_later(delay_us / 1_000_000, self._safely, self._dialler.dial, peer))

    def _dial_failed(self, peer: Peer, end: End, why: str) -> None:
        peer.dialled_in_vain()
        if why != peer.trouble:  # once per series, not once per attempt
            self._log.warn("no link", peer=peer.name, why=why)
        peer.count(end, why)
        self._keep_up(peer, backoff_us(peer.failures, self._settings, self._random))
        self._not_to_be_had(peer, why)

    def _not_to_be_had(self, peer: Peer, why: str) -> None:
        """Tell the node, if it asked."""
        if peer.wanted:
            peer.wanted = False
            self._will_tell(peer, why)

    # Who may come in.

    def _expects(self, hello: Introduction) -> str | None:
        if hello.aim is Purpose.ASK:
            return None
        name = hello.identity.name
        if name == self._me.name:
            return f"two nodes are called {name}"
        peer = self._peers.get(name)
        if peer is None:
            return f"{name} is not a member that {self._me.name} knows"
        if peer.dials:
            return f"links are opened by the smaller name: {self._me.name} dials {name}"
        if peer.cut:
            raise RefusalError("cut on request", told=None)
        return None

    def _answer(self, hello: Introduction) -> bytes:
        mine = (self._me.name, self._advertise or self.address)
        members = sorted([mine, *[(name, peer.address) for name, peer in self._peers.items()]])
        self._log.info("group told", to=hello.identity.name)
        return put_answer(Founded(tuple(members)))

    def _admit(self, theirs: Introduction, host: str = "") -> str | None:  # noqa: ARG002
        if theirs.aim is Purpose.ASK:
            return None
        peer = self._peers.get(theirs.identity.name)
        if peer is None:
            return f"{theirs.identity.name} is no longer a member"
        if not peer.dials and self._clock() < peer.shunned_until_us:
            return "cut off for misbehaviour a short while ago"
        if peer.is_copy(theirs):
            return f"another process is {peer.name} with the same log and boot: a copy of its data folder?"
        return self._handler.admit(theirs.identity)

    # What happens to connections (`link.Owner`).

    def connection_open(self, connection: Connection) -> None:
        self._connections.add(connection)

    def connection_up(self, connection: Connection, now: int) -> None:
        theirs = connection.handshake.peer
        if theirs is None or theirs.aim is not Purpose.LINK:
            self._listener.forget(connection)
            connection.end(End.CLOSED, "asked and answered")
            return
        known = self._peers.get(theirs.identity.name)
        if known is not None and not known.cut:
            self._replace(known)
        self._tell_downs()  # the node may have cut it, or no more use for it, by now
        peer = self._welcome(theirs.identity.name, connection)
        if peer is None:
            return
        self._listener.forget(connection)
        if peer.pending is not connection:
            peer.stop_dialling()
        connection.peer_name = peer.name
        connection.slow(peer.delay_us)
        peer.came_up(connection, theirs, now)
        self._log.info("link up", peer=peer.name, remote=connection.remote, boot=theirs.identity.boot)
        self._handler.link_up(peer.name, now)

    def _welcome(self, name: str, connection: Connection) -> Peer | None:
        """The peer at the other end of a connection that is up; None: it was not welcome, and is ended."""
        peer = self._peers.get(name)
        if peer is None or peer.cut:
            self._listener.forget(connection)
            connection.abort()
            return None
        return peer

    def _replace(self, peer: Peer) -> None:
        """A new connection takes the place of a link that may be dead without our knowing: there is nothing
        to dial, and the peer is not forgotten with it."""
        link, why = peer.link, "replaced by a new connection"
        if link is not None:
            peer.went_down(End.CLOSED, why, self._clock(), self._limits.steady_us)
            self._log.info("link down", peer=peer.name, why=why)
            self._will_tell(peer, why)
            link.end(End.CLOSED, why)

    def connection_packets(self, connection: Connection, packets: list[bytes], now: int) -> None:
        name = connection.peer_name
        peer = self._peers[name]
        peer.frames_in += len(packets)
        peer.heard_us = now
        self._handler.link_packets(name, packets, now)

    def connection_down(self, connection: Connection, end: End, why: str) -> None:
        if self._listener.forget(connection):
            self._listener.tell(connection, end, why)
            handshake = connection.handshake
            hello = handshake.hello if isinstance(handshake, Acceptor) else None
            claimed = self._peers.get(hello.identity.name) if hello else None
            if claimed is not None and claimed.link is None and end is End.REFUSED:
                claimed.count(end, why)
            return
        peer = self._peers.get(connection.peer_name)
        if peer is None:
            return
        if peer.link is connection:
            self._link_down(peer, end, why)
        elif peer.pending is connection:
            self._dial_failed(peer, end, why)

    def _link_down(self, peer: Peer, end: End, why: str) -> None:
        now = self._clock()
        peer.went_down(end, why, now, self._limits.steady_us)
        wait_us = backoff_us(peer.failures, self._settings, self._random)
        if end is End.MISBEHAVED:
            peer.shunned_until_us = now + self._limits.cut_off_us
            wait_us = upper_half_us(self._limits.cut_off_us, self._random)
            self._log.warn("peer cut off", peer=peer.name, why=why)
        else:
            self._log.info("link down", peer=peer.name, why=why)
        self._will_tell(peer, why)
        self._keep_up(peer, wait_us)

    def _will_tell(self, peer: Peer, why: str) -> None:
        self._downs.append((peer.name, why))
        asyncio.get_running_loop().call_soon(self._safely, self._tell_downs)

    def _tell_downs(self) -> None:
        for _ in range(len(self._downs)):  # telling one may lead to another, which has its own turn
            name, why = self._downs.popleft()
            self._handler.link_down(name, why, self._clock())

    def connection_gone(self, connection: Connection) -> None:
        self._connections.gone(connection)

    # Bugs.

    def stops(self, error: Exception) -> None:
        if not self._broken:  # a node that stops drops its links, which may go wrong once more
            self._broken = True
            self._handler.link_bug(error)

    def _safely(self, act: Callable[P, object], *words: P.args, **named: P.kwargs) -> None:
        """What the event loop calls."""
        try:
            act(*words, **named)
        except Exception as error:
            self.stops(error)

"""All links of one node: exactly one per peer, kept up, watched, replaced, counted.

The member with the smaller name dials; the other one listens. Whoever dials keeps trying; whoever listens
believes the newest proven connection, since its other end would not have opened it if the old one lived.

The handler is never called from inside a call that it makes itself (`write`, `cut_off`, `cut`, …): that a
link went down is told from the event loop, and always before the same peer is told to be up again. What goes
wrong in here, and is no peer's fault, is told as well (`link_bug`): nobody else would hear of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, ParamSpec, Protocol

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.door import reason_of
from thence.runtime.frames import join
from thence.runtime.groups import Founded, put_answer
from thence.runtime.handshake import Acceptor, Judge, Opener
from thence.runtime.introductions import (
    Aim,
    Identity,
    Introduction,
    RefusalError,
    draw_instance,
    draw_nonce,
)
from thence.runtime.link import Connection, End
from thence.runtime.listening import Connections, Listener, Log
from thence.runtime.pacing import Clock, LinkLimits, backoff_us, upper_half_us
from thence.runtime.peer import LinkStatus, Peer
from thence.runtime.settings import LinkSettings

P = ParamSpec("P")

__all__ = ["Handler", "Identity", "LinkStatus", "Links", "Log"]


class Handler(Protocol):
    """The node, as its links see it."""

    def admit(self, peer: Identity) -> str | None:
        """A reason to refuse a side that has proven to be this; None: welcome. Asked in both roles, also
        while an older link of the same peer is still up: it may be dead without our knowing."""
        ...

    def link_up(self, peer: str, now: int) -> None: ...

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        """All packets of one read. `PeerError`: the link is cut off."""
        ...

    def link_down(self, peer: str, why: str, now: int) -> None: ...

    def link_bug(self, error: Exception) -> None:
        """Nobody knows what links would do from now on: the node must stop."""
        ...


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
        self._secret: Final = secret
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
        judge = Judge(self._expects, self._admit, self._answer)
        self._listener: Final = Listener(
            me, self._instance, secret, judge, self, settings, self._limits, clock, log
        )
        self._dials: set[asyncio.Task[None]] = set()
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
        await asyncio.gather(*self._dials, return_exceptions=True)
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
        known.cut = True
        if known.link is not None:
            known.link.abort()
        known.stop_dialling()
        self._not_to_be_had(known, "cut on request")

    def mend(self, peer: str) -> None:
        known = self._known(peer)
        known.cut = False
        known.shunned_until_us = 0
        known.failures = 0
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
        if self._running and peer.dials and not peer.cut:
            loop = asyncio.get_running_loop()
            peer.timer = loop.call_later(delay_us / 1_000_000, self._safely, self._dial, peer)

    def _dial(self, peer: Peer) -> None:
        peer.timer = None
        mine = Introduction(self._me, peer.name, Aim.LINK, self._instance, draw_nonce())
        opener = Opener(mine, self._secret, self._admit)
        connection = Connection(self, opener, self._settings, self._limits, self._clock)
        connection.peer_name = peer.name
        peer.pending = connection
        loop = asyncio.get_running_loop()
        peer.dialling = loop.create_task(self._connect(connection, peer.address), name=f"dial {peer.name}")
        self._dials.add(peer.dialling)
        peer.dialling.add_done_callback(self._dials.discard)

    async def _connect(self, connection: Connection, address: Address) -> None:
        try:
            await self._connect_to(connection, address)
        except (OSError, UnicodeError) as error:  # the latter: what the resolver says of some names
            why = f"cannot reach {address}: {reason_of(error)}"
            self._safely(lambda: connection.end(End.LOST, why))
        except Exception as error:
            self.stops(error)

    async def _connect_to(self, connection: Connection, address: Address) -> None:
        async with asyncio.timeout(self._settings.connect_timeout_us / 1_000_000):
            await asyncio.get_running_loop().create_connection(lambda: connection, *address)

    def _dial_failed(self, peer: Peer, end: End, why: str) -> None:
        peer.pending = None
        peer.failures += 1
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
        if hello.aim is Aim.ASK:
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
        if theirs.aim is Aim.ASK:
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
        self._listener.forget(connection)
        theirs = connection.handshake.peer
        if theirs is None or theirs.aim is not Aim.LINK:
            connection.end(End.CLOSED, "asked and answered")
            return
        peer = self._peers.get(theirs.identity.name)
        if peer is None or peer.cut:
            connection.abort()
            return
        if peer.link is not None:
            peer.link.end(End.CLOSED, "replaced by a new connection")
        self._tell_downs()
        connection.peer_name = peer.name
        connection.slow(peer.delay_us)
        peer.came_up(connection, theirs, now)
        self._log.info("link up", peer=peer.name, remote=connection.remote, boot=theirs.identity.boot)
        self._handler.link_up(peer.name, now)

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

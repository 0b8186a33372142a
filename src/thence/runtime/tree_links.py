"""Links of a node over a tree without tags: opened when its view asks for them, by whichever end wants one.

`connect_to` is followed by one `link_up` or `link_down`. What is closed by `disconnect` is not told; nothing
is dialled again: which peer to try next is for the view to say. A peer is remembered for as long as there is
a link, an attempt, or a fault that is to last.
"""

from thence.runtime.address import Address
from thence.runtime.link import Connection, End
from thence.runtime.open_links import OpenLinks
from thence.runtime.peer import Peer, PeerStage


class TreeLinks(OpenLinks):
    foresees = True

    def connect_to(self, name: str, address: Address) -> None:
        """There shall be a link to this process. One that is up will do."""
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = Peer(name, address, dials=True, now=self._clock())
        peer.address, peer.dials = address, True
        peer.wanted = self._running and peer.link is None
        if not peer.wanted or peer.stage is PeerStage.DIALLING:
            return
        if peer.cut:
            self._not_to_be_had(peer, "cut on request")
        elif self._clock() < peer.shunned_until_us:
            self._not_to_be_had(peer, "cut off a short while ago")
        else:
            self._dialler.dial(peer)

    def disconnect(self, name: str) -> None:
        """The link to this process is not needed. What was written still leaves."""
        peer = self._peers.get(name)
        if peer is None:
            return
        peer.wanted = peer.dials = False
        peer.stop_dialling()
        link = peer.left(self._clock())
        if link is not None:
            link.end(End.CLOSED, "not needed")
        self._forget(peer)

    def connection_packets(self, connection: Connection, packets: list[bytes], now: int) -> None:
        """Of a link that was given up as soon as it was there, what came with it counts for nothing."""
        peer = self._peers.get(connection.peer_name)
        if peer is not None and peer.link is connection:
            super().connection_packets(connection, packets, now)

    def _keep_up(self, peer: Peer, delay_us: int) -> None:
        """It is up to the view."""

    def _dial_failed(self, peer: Peer, end: End, why: str) -> None:
        peer.dials = False
        super()._dial_failed(peer, end, why)
        self._forget(peer)

    def _link_down(self, peer: Peer, end: End, why: str) -> None:
        peer.dials = False
        super()._link_down(peer, end, why)

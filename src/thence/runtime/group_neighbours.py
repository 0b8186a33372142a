"""Links of a node in a changing group to the processes of its view, and what it tells strangers.

Members, suspects, leavers and the evicted are kept in touch with as long as the machine knows where they are;
others may call. A peer that is not needed any more keeps its link until it closes it: a leaver waits for a
last word.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import UsageError
from thence.core.group_codec import JOIN_REQUEST, decode
from thence.core.groups import GroupPacket, JoinRequest, number_of, process_of
from thence.runtime.address import Address, parse_address
from thence.runtime.election import Founded, Open, Seeking, put_answer
from thence.runtime.hello import Identity, Introduction, leap
from thence.runtime.logs import NodeLog
from thence.runtime.open_links import OpenLinks
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings
from thence.runtime.vouching import Vouching

if TYPE_CHECKING:
    from thence.replica.group.member.member import Member
    from thence.replica.group.process.node import GroupNode
    from thence.runtime.driver import Driver


CLOSE_US: Final = 1_000_000
"""In a tree: how long a link stays that this end does not need any more. The other end may, for a moment, and
what waits there is sent by then."""


class Neighbours:
    """`links.Handler` and the driver's outlet."""

    def __init__(
        self,
        settings: NodeSettings,
        identity: Identity,
        clock: Clock,
        log: NodeLog,
        members: Mapping[str, str],
    ) -> None:
        """`members`: of a closed group, and where they are."""
        self._settings: Final = settings
        self._members: Final = members
        self._keeps_few: Final = settings.spread != "mesh"
        self._says: Final = log
        self.links: Final = OpenLinks(
            identity, settings.secret, settings.listen, settings.links, self,
            Random(os.urandom(16)), clock, log, self._answer, self._others,
        )  # fmt: skip
        self.send: Final = self.links.write
        self.driver: Driver[GroupNode] | None = None
        self._met: dict[str, tuple[bytes, int]] = {}
        self._vouching: Final = Vouching()
        self._doubted: dict[str, str] = {}
        self.bug: Exception | None = None
        """In the bookkeeping of links: the node must stop, as soon as there is something to be stopped."""

    async def start(self, contacts: dict[str, Address]) -> None:
        await self.links.start()
        for name, address in contacts.items():
            self.links.know(name, address, at_once=True)

    async def close(self) -> None:
        await self._vouching.close()
        await self.links.close()

    @property
    def _member(self) -> "Member | None":
        return self.driver.machine.member if self.driver is not None else None

    def _others(self) -> list[str]:
        """Of the group, whether or not there is a link."""
        known = self.driver.machine.addresses if self.driver is not None else {}
        return [name for name in known if name != self._settings.name]

    # Links (`links.Handler`)

    def admit(self, peer: Identity) -> str | None:
        me, driver = self._settings.name, self.driver
        if self._members and peer.name not in self._members:
            return f"{peer.name} is not a member that {me} knows"
        if driver is None:
            return f"{me} is starting"
        if driver.trouble is not None:
            return f"{me} cannot write at present: {driver.trouble}"
        log_id, boot = self._met.get(peer.name, (peer.log_id, 0))
        if log_id != peer.log_id and self.links.linked(peer.name):
            return f"another node called {peer.name} is linked here: two nodes with one name"
        if log_id == peer.log_id and peer.boot < boot and self.links.linked(peer.name):
            return f"{peer.name} was here with a newer boot ({boot}, not {peer.boot}): a copy of its data"
        absurd = leap(peer.name, peer.boot, boot if log_id == peer.log_id else 0)
        if absurd is not None:
            return absurd
        self._met[peer.name] = peer.log_id, peer.boot
        return None

    def link_up(self, peer: str, now: int) -> None:
        del now
        if self.driver is not None:
            self.driver.link_up(peer)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        if self.driver is not None:
            self.driver.packets(peer, packets, now)

    def link_down(self, peer: str, why: str, now: int) -> None:
        del why, now
        if not self.links.knows(peer):
            self._met.pop(peer, None)  # a guest that has gone: there is no end to the names they can have
        if self.driver is not None:
            self.driver.link_down(peer)

    def link_bug(self, error: Exception) -> None:
        self.bug = self.bug or error
        if self.driver is not None:
            self.driver.stops(error)

    def _answer(self, hello: Introduction) -> bytes:
        """To one that asks for the group."""
        settings, member, asks = self._settings, self._member, hello.identity.name
        if self._members and asks not in self._members:
            closed = [(name, parse_address(where)) for name, where in self._members.items()]
            return put_answer(Founded(tuple(sorted(closed))))
        if member is None or member.view.leaving:
            return put_answer(Seeking(settings.name, settings.reached_at(self.links.address), settings.join))
        self._says.info("group told", to=asks)
        side = {process_of(name) for name in member.view.side}
        known = {name: where for name, where in member.view.by_process().items() if name in side}
        view, named = member.view, [name for name in member.ledger.names if process_of(name) == asks]
        highest = max(view.past.top(asks), view.closed.top(asks), *map(number_of, named))
        members = sorted([(name, parse_address(where)) for name, where in known.items()])
        return put_answer(Open(tuple(members), highest))

    # What the driver and people ask for

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[GroupPacket]:
        for each in data:
            if each[1] == JOIN_REQUEST:
                return self._vouched_for(peer, map(decode, data))
        return map(decode, data)

    def _vouched_for(self, peer: str, packets: Iterator[GroupPacket]) -> Iterator[GroupPacket]:
        """A joiner is reached at an address if its link comes from there; else nowhere."""
        for packet in packets:
            if type(packet) is JoinRequest and packet.contact and packet.address:
                address = self._vouched(peer, packet.address)
                if address is not None:  # else it is not known yet: it asks again
                    yield packet._replace(address=address)
            else:
                yield packet

    def _vouched(self, process: str, address: str) -> str | None:
        true = self._vouching.comes_from(self.links.host_of(process), address)
        if true is False and self._doubted.get(process) != address:
            self._doubted[process] = address
            self._says.warn(
                "a joiner calls from elsewhere than it says: it is not dialled",
                peer=process,
                address=address,
                host=self.links.host_of(process),
            )
        return None if true is None else address if true else ""

    def begin_anew(self, why: str) -> None:
        self._says.error("cannot write: broadcasts are refused, links begin anew", why=why)
        self.links.begin_anew()

    def keep(self, links: Mapping[str, str | None]) -> None:
        for name, where in links.items():
            if where is None:
                self.links.dismiss(name, CLOSE_US if self._keeps_few else None)
                continue
            with suppress(UsageError):  # an address that is none: it will have to call
                self.links.know(name, parse_address(where))

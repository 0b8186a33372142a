"""A process of a topology (`contract.Machine`): separators over a log. docs/protocols/separators.md, Live.

What it is follows from what happened to it (`zone_core`), which is written down first (`zone_life`); here
are time, links, and what must be refused. Which processes there are the topology file says, for good. A
process that its neighbours know more of than its log does, or that they go on without, ends for good
(`ended`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.machine import NEVER, Wake
from thence.core.runs import in_runs
from thence.core.zones import (
    CLOSED,
    ZoneAsk,
    ZoneGone,
    ZoneHave,
    ZoneHello,
    ZoneItems,
    ZonePacket,
    ZoneSays,
    ZoneWord,
)
from thence.core.zones_codec import decode, encode
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.record import MAX_BODY
from thence.order.topology import Topology
from thence.order.zones_text import topology_of
from thence.replica.contract import Output, Untagged, must_fit
from thence.replica.events import Repeated
from thence.replica.group.surroundings import Application
from thence.replica.life_tag import Sent
from thence.replica.zone_core import Item, ZoneCore
from thence.replica.zone_journal import Came, Own, OwnRun, Took, ZoneHeard
from thence.replica.zone_life import ZoneDiary, ZoneLife
from thence.replica.zone_talk import ZoneSession, ZoneSettings, ZoneTalk
from thence.replica.zone_watch import ZoneWatch

__all__ = ["Directed", "Topology", "ZoneMachine", "ZoneSettings", "directed", "topology_of"]

HEAD_BYTES: Final = 64 << 10
"""What a frame and a record must have room for beside a payload."""


class Directed(bytes):
    """A payload for `broadcast`, to these processes."""

    to: tuple[str, ...]


def directed(to: Sequence[str], payload: bytes) -> Directed:
    found = Directed(payload)
    found.to = tuple(dict.fromkeys(to))
    if not found.to:
        raise UsageError("no addressee: to=[…] names at least one process")
    return found


def _to(payload: bytes) -> tuple[str, ...]:
    return payload.to if isinstance(payload, Directed) else ()


class ZoneMachine(Untagged):
    __slots__ = (
        "_application", "_ended", "_index", "_life", "_links", "_log", "_payload_max", "_settings", "name",
        "talk", "topology", "watch",
    )  # fmt: skip

    no_tags = "order separator has no tags: no process could compare messages that are not addressed to it"
    no_counts = "with order separator a process has what is addressed to it: no count tells of it"

    def __init__(
        self,
        name: str,
        topology: Topology,
        addresses: Mapping[str, str],
        log: OpLog,
        application: Application,
        diary: ZoneDiary,
        settings: ZoneSettings,
        now: int,
        frame_bytes: int = MAX_BODY,
    ) -> None:
        """`UsageError`: the topology does not have this process, is another one than the log's, or the
        process has come to its end."""
        self.topology: Final = topology
        self.name: Final = name
        self._index: Final = {each: index for index, each in enumerate(topology.names)}
        if name not in self._index:
            raise UsageError(f"the topology does not name {name}")
        self._log: Final = log
        self._application: Final = application
        self._settings: Final = settings
        self._payload_max: Final = min(frame_bytes, MAX_BODY) - HEAD_BYTES
        self._life: Final = ZoneLife(self._index[name], topology, settings.rules, log, application, diary)
        core = self.core
        others: tuple[int, ...] = ()
        if topology.is_gateway(core.me):
            members = topology.separators[topology.separator_of(core.me)].members
            others = tuple([each for each in members if each != core.me])
        self.talk: Final = ZoneTalk(core, topology, settings, now)
        self.watch: Final = ZoneWatch(core.near, others, settings.suspect_us, now)
        self._links: dict[str, str | None] | None = {
            topology.names[peer]: addresses.get(topology.names[peer], "")
            for peer in core.near
            if peer not in core.closed
        }
        self._ended = ""

    @property
    def core(self) -> ZoneCore:
        return self._life.core

    # What happens to it

    @property
    def log(self) -> OpLog | None:
        return self._log

    @property
    def wake_at(self) -> int:
        greets = self.talk.greet_until or NEVER
        return min(greets, self.talk.ack_at, self.talk.word_at, self.watch.wake_at(self.core.closed))

    @property
    def waiting(self) -> int:
        return self.core.waiting

    @property
    def in_debt(self) -> bool:
        """A neighbour may have messages of this process that its disk has forgotten."""
        return self.talk.waits

    @property
    def waits_for(self) -> tuple[str, ...]:
        talk = self.talk
        return tuple([self.topology.names[peer] for peer in talk.silent()]) if talk.waits else ()

    @property
    def ended(self) -> str:
        """Why this process may not go on, ever; empty: it may."""
        return self._ended

    @property
    def refuses(self) -> ThenceError | None:
        if self._ended:
            return StorageError(self._ended)
        most, most_bytes = self._settings.kept_most, self._settings.kept_bytes
        for peer, stream in self.core.streams.items():
            if len(stream.items) >= most or stream.bytes >= most_bytes:
                name = self.topology.names[peer]
                return UsageError(f"{len(stream.items)} messages wait for {name}, which does not take them")
        return None

    def encode(self, packet: ZonePacket) -> bytes:
        return encode(packet)

    def decode(self, data: bytes) -> ZonePacket:
        return decode(data)

    def link_up(self, peer: str, now: int) -> None:  # noqa: ARG002
        index = self._index.get(peer, -1)
        if index not in self.talk.sessions or self._ended:
            return
        if index in self.core.closed:
            self.talk.post(index, ZoneGone(index))
            return
        self.watch.link_up(index)
        self.talk.begin(index)

    def link_down(self, peer: str, now: int) -> None:
        index = self._index.get(peer, -1)
        if index in self.talk.sessions:
            self.watch.link_down(index, now)
            self.talk.end(index)

    def receive(self, peer: str, packet: ZonePacket, now: int) -> None:
        index, talk = self._index.get(peer, -1), self.talk
        if index not in talk.sessions:
            raise PeerError(f"{peer} is no neighbour of {self.name}")
        session = talk.sessions[index]
        if self._ended or session.behind or not session.up:
            return
        if index in self.core.closed:
            talk.post(index, ZoneGone(index))
        elif isinstance(packet, ZoneHello):
            if why := talk.greeted(index, packet, now):
                self._end(why)
        elif isinstance(packet, ZoneGone):
            if packet.who != self.core.me:
                raise PeerError(f"{peer} says to {self.name} that another one is gone")
            self._end(f"{peer} and the others have gone on without it: it was taken for dead")
        elif not session.greeted:
            raise PeerError(f"{peer} begins without a greeting")
        elif isinstance(packet, ZoneItems):
            self._must_be_dots(packet.word)
            if talk.waits:
                session.early.append(packet)
            else:
                self._items(index, session, packet, now)
            talk.acked(index, packet)
        elif isinstance(packet, ZoneHave):
            self._must_be_dots(packet.word)
            talk.acked(index, packet)
            self._heard(index, packet.word)
        else:
            self._said(index, packet, now)
        self._go_on(now)

    def _said(self, peer: int, packet: ZonePacket, now: int) -> None:
        core = self.core
        if isinstance(packet, ZoneWord):
            self._must_be_dots(packet.hops)
            self._heard(peer, packet.hops)
        elif isinstance(packet, ZoneAsk):
            lost = packet.who in core.closed or self.watch.has_lost(packet.who, now)
            self.talk.post(peer, ZoneSays(packet.number, packet.who, lost))
        elif isinstance(packet, ZoneSays):
            if packet.who not in self.talk.sessions:
                raise PeerError(f"an answer about process {packet.who}, which is not near")
            others = {each for each in core.shared(packet.who) if each not in core.closed}
            if packet.who not in core.closed and self.watch.answered(
                peer, packet.number, packet.who, packet.lost, others
            ):
                self._close(packet.who)

    def _heard(self, peer: int, hops: tuple[int, ...]) -> None:
        """R11."""
        if hops:
            self._life.happens(ZoneHeard(peer, hops))

    def _must_be_dots(self, hops: Sequence[int]) -> None:
        core = self.core
        for hop in hops:
            sender, counter = hop & ORIGIN_MASK, hop >> ORIGIN_BITS
            if sender >= len(self.topology) or (sender == core.me and counter > core.history.counter):
                raise PeerError("a word of hops that were never sent")

    def _go_on(self, now: int) -> None:
        """Have all neighbours greeted that live? Then what they have sent since is taken."""
        for peer, session, packet in self.talk.go_on(now):
            try:
                self._items(peer, session, packet, now)
            except PeerError:
                session.behind = True  # nothing more is taken from it over this link

    def _end(self, why: str) -> None:
        self._ended = why
        self._life.end(why)
        self.talk.posts.clear()

    # Items

    def _items(self, peer: int, session: ZoneSession, packet: ZoneItems, now: int) -> None:
        core = self.core
        fresh = self.talk.fresh(peer, packet)
        parsed = [core.parse(peer, data) for data in fresh]
        for data, item in zip(fresh, parsed, strict=True):
            self._life.happens(Came(peer, data), item)
        if fresh:
            self.talk.came(session, now)
        self._heard(peer, packet.word)
        self._follow(parsed)

    def _follow(self, items: Sequence[Item]) -> None:
        """Others have closed a process."""
        core = self.core
        for item in items:
            if item.kind == CLOSED and core.me in item.closed:
                self._end("the others have gone on without it: it was taken for dead")
                return
            for who in item.closed:
                if who not in core.closed:
                    self._close(who)

    def _close(self, who: int) -> None:
        self._life.close(who)
        self.watch.forget(who)
        if self.talk.sessions[who].up:
            self.talk.post(who, ZoneGone(who))
        self.talk.end(who)
        if self._links is None:
            self._links = {}
        self._links[self.topology.names[who]] = None

    def evict(self, name: str, force: bool, now: int) -> str:
        """A person says that this neighbour is gone for good."""
        who = self._index.get(name)
        if who is None or who not in self.talk.sessions:
            raise UsageError(f"{name} is no neighbour of {self.name}: ask one of its own zone")
        core = self.core
        if who in core.closed:
            raise UsageError(f"{name} was closed before")
        if self.topology.is_gateway(who):
            members = self.topology.separators[self.topology.separator_of(who)].members
            if all(each == who or each in core.closed for each in members):
                raise UsageError(f"{name} is the last gateway there: nothing would cross any more")
        if self.talk.sessions[who].up and not force:
            raise UsageError(f"{name} is linked here: stop it first")
        self._close(who)
        self._go_on(now)
        return name

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        """To all, or to the processes named with a payload (`directed`). Those to the same in a row are a
        run; a message to others between two of them comes between them everywhere."""
        must_fit(payloads, self._payload_max)
        most = min(self._payload_max, self._settings.packet_bytes)
        calls = [(self._dest(to), [bytes(one) for one in each]) for to, each in groupby(payloads, _to)]
        first = self.sent + 1
        for dest, each in calls:
            for run in in_runs(each, most):
                one = len(run) == 1
                self._life.happens(Own(dest, run[0], now) if one else OwnRun(dest, tuple(run), now))
        return [((self.name, seq), None) for seq in range(first, first + len(payloads))]

    def _dest(self, to: Sequence[str]) -> tuple[int, ...]:
        if self.topology.is_gateway(self.core.me):
            raise UsageError(f"{self.name} is a gateway: it has no client")
        for name in to:
            if name not in self._index:
                raise UsageError(f"unknown process {name!r}")
        dest = tuple(sorted([self._index[name] for name in to]))
        self.topology.check(dest)
        for process in dest:
            if process in self.core.closed:
                raise UsageError(f"{self.topology.names[process]} is gone for good")
        return dest

    def take(self, limit: int, now: int) -> int:
        """A run is taken as a whole."""
        messages = operations = 0
        for message in self.core.inbox:
            if operations >= limit:
                break
            messages += 1
            operations += message.span
        if messages:
            self._life.happens(Took(messages, now))
        return operations

    def wake(self, now: int) -> None:
        self._go_on(now)
        core, talk = self.core, self.talk
        talk.say_words(now)
        for number, who in self.watch.questions(core.closed, now):
            for peer in core.shared(who):
                if talk.sessions[peer].greeted:
                    talk.post(peer, ZoneAsk(number, who))

    # A step's end

    def commit(self, now: int) -> Sequence[DiskSync | Wake]:
        if not self.talk.waits and not self._ended:
            self.talk.pump(now)
        self._log.mark_taken(self._life.taken)
        return self._log.commit(now)

    def output(self) -> Output:
        links, self._links = self._links, None
        return self.talk.take_posts(), links, self._application.output()

    def drop(self) -> None:
        self._application.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._life.long and not self._ended

    def tidy(self, now: int) -> None:
        self._life.shorten(now)
        self.talk.core = self.core

    # What a program asks

    @property
    def me(self) -> str:
        return self.name

    @property
    def members(self) -> tuple[str, ...]:
        """All processes of the topology that are not known to be gone."""
        return tuple([name for at, name in enumerate(self.topology.names) if at not in self.core.closed])

    @property
    def position(self) -> int:
        return self._life.taken

    @property
    def sent(self) -> int:
        return self.core.tagger.sent

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        del after, now, own
        raise UsageError("order separator keeps no positions: a program goes on with what it has not taken")

"""A process of a tree without tags, whose members come and go: docs/protocols/open-trees.md.

A `contract.Machine`. Names stand at its edge, integers inside (`tree_names`). There is no view that all agree
on: neighbours come by HyParView, members by their first message. What the replica asks for is gathered until
the step is committed.

A process whose disk was put back, or lost, hears from its first neighbour of messages that it does not know
to have sent. Then it goes on under another name, once in a start: which number it takes is for its shelf to
say. Broadcasts wait for that neighbour, for a moment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Final, Protocol

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.groups import Place, incarnation, number_of, process_of
from thence.core.machine import NEVER, Ack, Batch, Connect, Effect, Packet, Phantom, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import ROOT_BITS, Graft, Naming, Places, Pull, Rumour, Shared, StatePiece, Sync
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync as LogSync
from thence.oplog.record import MAX_BODY, Stored
from thence.replica.contract import Output, must_fit
from thence.replica.events import Delivered, Repeated
from thence.replica.group_parts import Application, Diary
from thence.replica.history import understood
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.overlay import Overlay
from thence.replica.tree import TreeReplica
from thence.replica.tree_names import Processes, Tongue, checked_name

STAMP_BYTES: Final = 32 << 10
"""What a frame and a record must have room for beside a payload."""

GREET_US: Final = 2_000_000
"""How long broadcasts wait after a start for the first neighbour to say what it has of this node."""

MOST_AHEAD: Final = 1 << 32
"""Messages that a node can have sent since the backup that it was restored from. A peer that claims to have
more of them lies."""

ME: Final = 9
"""The key of the note that says which incarnation writes this log. Names of others of the same process may
come later: of former ones, or of one that another node has made up."""

MEMBERS_MOST: Final = ORIGIN_MASK >> 1
"""Incarnations that a log counts."""

PROCESSES_MOST: Final = 4096
"""That are remembered beside those in the views, before the others are forgotten."""


class Made(Protocol):
    """The parts that differ between trees: made for one of these names."""

    def __call__(
        self, me: int, names: list[str], diary: Diary, log: OpLog, processes: Processes
    ) -> tuple[TreeReplica, Overlay]: ...


class OpenTree:
    __slots__ = (
        "_address", "_ahead", "_application", "_born", "_diaries", "_effects", "_greet_until", "_index",
        "_leaving", "_log", "_names", "_next_number", "_owed", "_payload_max", "_sent_before", "_tongues",
        "_wakes", "me_index", "name", "overlay", "processes", "replica",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        address: str,
        contacts: Mapping[str, str],
        log: OpLog,
        make: Made,
        application: Application,
        diaries: Callable[[str], Diary],
        next_number: Callable[[], int],
        frame_bytes: int = MAX_BODY,
        forgetful: bool = False,
        now: int = 0,
    ) -> None:
        """`contacts`: whom to ask, and where. `next_number`: of another incarnation, reserved for good.
        `frame_bytes`: what a link carries at once. `forgetful`: the log may lack messages that this process
        has sent, so that it goes on as another incarnation."""
        self.name: Final = name
        self._address: Final = address
        self._application: Final = application
        self._diaries: Final = diaries
        self._next_number: Final = next_number
        self._log: Final = log
        self._payload_max: Final = min(frame_bytes, MAX_BODY) - STAMP_BYTES
        self._names: Final[list[str]] = list(log.names)
        self._index: Final = {known: index for index, known in enumerate(self._names)}
        own = name in self._index or ME in log.notes  # a log of version 1 has no such note
        me = log.notes.get(ME, name.encode()).decode() if own else incarnation(name, next_number())
        self.me_index = self._member(me)
        if not own:
            log.note(ME, me.encode())
        self.processes: Final = Processes(name, address)
        for contact, where in contacts.items():
            self.processes.add(contact, where)
        self.replica, self.overlay = make(self.me_index, self._names, diaries(me), log, self.processes)
        self._tongues: Final[dict[int, Tongue]] = {}
        self._effects: list[Effect] = []
        self._wakes: list[int] = []
        self._ahead: Final[dict[str, str]] = {}
        """Peers that have more of this node's messages than its log, in words, where it is too late."""
        self._born = False
        self._owed: dict[int, int] = {}
        """Of former incarnations: how many messages a neighbour has, where the program has seen fewer."""
        self._leaving = False
        self._greet_until = now + GREET_US if contacts else 0
        if own and not forgetful:
            self.replica.tell_again(now)
        if own and forgetful:
            self._become(now, ends=False)
        self._sent_before = self.replica.sent
        if self._greet_until:
            heappush(self._wakes, self._greet_until)

    def start(self, fresh: bool, now: int) -> None:
        """The process was started: for the first time, or not."""
        self._effects += self.replica.start(fresh, now) if not self._born else self.replica.resume(now)

    def resume(self, now: int) -> None:
        """It was built anew, after a write had failed."""
        self._effects += self.replica.resume(now)

    def meet(self, name: str, address: str, now: int) -> None:
        """One more contact."""
        if name != self.name:
            self._route(self.overlay.meet(self.processes.add(name, address), now), now)

    def part(self) -> None:
        """It is about to leave: nothing is sent any more."""
        self._leaving = True

    def leave(self, now: int) -> None:
        """For good: neighbours are told."""
        self._leaving = True
        self._route(self.overlay.leave(now), now)
        self.replica.left(now)

    def _member(self, name: str) -> int:
        """The index of an incarnation, which becomes known if it was not."""
        index = self._index.get(name)
        if index is None:
            if len(self._names) > MEMBERS_MOST:
                raise PeerError(f"more than {MEMBERS_MOST} incarnations")
            index = self._index[name] = self._log.member(name)
            self._names.append(name)
        return index

    def _become(self, now: int, ends: bool) -> None:
        """This process goes on as another incarnation, with all that it has."""
        self._born = True
        me = incarnation(self.name, self._next_number())
        self.me_index = self._member(me)
        self._log.note(ME, me.encode())
        self.replica.admit()
        self.replica.become(self.me_index, self._diaries(me), now, ends)
        self._sent_before = 0

    # What happens to it

    @property
    def log(self) -> OpLog | None:
        return self._log

    @property
    def wake_at(self) -> int:
        return self._wakes[0] if self._wakes else NEVER

    @property
    def waiting(self) -> int:
        return len(self.replica.inbox)

    @property
    def in_debt(self) -> bool:
        """It may be that others have messages of this process that it has forgotten; or they have, and what
        it sends now comes after them: the program takes them first."""
        if self._owed:
            seen = self.replica.seen
            self._owed = {origin: count for origin, count in self._owed.items() if seen(origin) < count}
        return bool(self._greet_until or self._owed)

    @property
    def waits_for(self) -> tuple[str, ...]:
        if self._greet_until:
            return ("a first neighbour",)
        return tuple([f"what it sent as {self._names[origin]}" for origin in self._owed])

    @property
    def refuses(self) -> ThenceError | None:
        if self._leaving:
            return UsageError(f"{self.name} leaves")
        return None if self.behind is None else StorageError(self.behind)

    @property
    def behind(self) -> str | None:
        """Why the log is an old copy, if others say so and it is too late to take another name."""
        if not self._ahead:
            return None
        return (
            f"{'; '.join(self._ahead.values())}: its data folder was put back, and it has sent messages "
            "under numbers that were used before: give it an empty folder, and it is another incarnation"
        )

    def encode(self, packet: Packet) -> bytes:
        return self.replica.order.codec.encode(packet)

    def decode(self, data: bytes) -> Packet:
        return self.replica.order.codec.decode(data)

    def link_up(self, peer: str, now: int) -> None:
        index = self.processes.add(peer)
        order = self.replica.order
        tongue = self._tongues[index] = Tongue(self._member, order.entries)
        self._effects.append(Transmit((index,), tongue.introduce((0,), self.processes)))
        if order.entries:
            self._effects.append(Transmit((index,), Shared(order.entries, order.keys)))
        self._route(self.overlay.up(index, now), now)

    def link_down(self, peer: str, now: int) -> None:
        index = self.processes.add(peer)
        self._tongues.pop(index, None)
        self._route(self.overlay.down(index, now), now)

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        index = self.processes.add(peer)
        tongue = self._tongues.get(index)
        if tongue is None:
            return  # its link was closed
        if isinstance(packet, Naming):
            tongue.learn_names(packet)
        elif isinstance(packet, Places):
            self._learn(peer, tongue, packet)
        elif isinstance(packet, Shared):
            own = Shared(self.replica.order.entries, self.replica.order.keys)
            if packet != own:
                raise PeerError(f"{peer} orders by clocks of {_said(packet)}, this node of {_said(own)}")
        elif isinstance(packet, Ack | Batch | Phantom):
            raise PeerError(f"a tree has no use for a {type(packet).__name__}")
        else:
            known = len(self._names)
            plain = tongue.understood(packet, self._names)
            if len(self._names) > known:
                self.replica.admit()
            if isinstance(plain, Rumour):
                message = self.replica.order.whole(plain)
                if message is None:
                    return  # it will come whole, with an answer
                plain = message
            self._check(plain)
            self._look_for_more(peer, plain, now)
            self._effects += self.replica.receive(index, plain, now)

    def _learn(self, peer: str, tongue: Tongue, packet: Places) -> None:
        """What it says of itself it says first; of others, what it says counts where nothing is known."""
        for theirs, name, address in packet.places:
            if (theirs == 0) is not (name == peer):
                raise PeerError(f"{peer} speaks as {name}")
            known = self.processes.add(checked_name(name))
            if theirs == 0 or not self.processes.address(known):
                self.processes.add(name, address if name != self.name else "")
            tongue.learn_place(theirs, known)

    def _check(self, packet: Packet) -> None:
        """No message counts less than its sender has sent."""
        if self.replica.order.entries:
            for message in (packet,) if isinstance(packet, Message) else getattr(packet, "messages", ()):
                self.replica.order.check(message)

    def _look_for_more(self, peer: str, packet: Packet, now: int) -> None:
        """Does somebody have more of this node than it has sent? A graft says how much it has."""
        if isinstance(packet, Graft | Pull | StatePiece):
            most = packet.clock[self.me_index]
        elif isinstance(packet, Message):
            most = self._own_counter(packet)
        elif isinstance(packet, Sync):
            most = max(map(self._own_counter, packet.messages), default=0)
        else:
            return
        sent = self.replica.sent
        if most > sent:
            why = f"{peer} has message {most} of {self.me}, which has sent {sent}"
            if most > sent + MOST_AHEAD or self._born:
                raise PeerError(why)
            if sent > self._sent_before:
                self._ahead[peer] = why
                raise PeerError(why)
            self._become(now, ends=True)
        if isinstance(packet, Graft | Pull):
            self._ahead.pop(peer, None)
            if self._greet_until:
                self._greet_until = 0
                self._owed = {
                    origin: count
                    for origin, count in enumerate(packet.clock)
                    if count and origin != self.me_index and process_of(self._names[origin]) == self.name
                }

    def _own_counter(self, message: Message) -> int:
        return message.dot >> ORIGIN_BITS if message.dot & ORIGIN_MASK == self.me_index else 0

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        must_fit(payloads, self._payload_max)
        sent: list[Sent] = []
        for payload in payloads:
            message, effects = self.replica.submit(payload, now)
            self._effects += effects
            sent.append((self.replica.place(message.dot), self.replica.tag_of(message)))
        return sent

    def take(self, limit: int, now: int) -> int:
        replica, taken = self.replica, 0
        while taken < limit and replica.inbox:
            replica.take(now)
            taken += 1
        if replica.alarms and replica.set_right():
            self._route(self.overlay.alarm(now), now)
        return taken

    def wake(self, now: int) -> None:
        while self._wakes and self._wakes[0] <= now:
            heappop(self._wakes)
        if now >= self._greet_until:
            self._greet_until = 0
        self._route(self.overlay.wake(now), now)

    def hold(self, peer: str) -> None:
        """Too much waits to be sent to a peer."""
        self.overlay.hold(self.processes.add(peer))

    def release(self, peer: str, now: int) -> None:
        self._route(self.overlay.release(self.processes.add(peer), now), now)

    def _route(self, asked: "list[Message | Transmit | Wake]", now: int) -> None:
        self._effects += self.replica.route(asked, now)

    # A step's end

    def commit(self, now: int) -> Sequence[LogSync | Wake]:
        return self.replica.commit(now)

    def output(self) -> Output:
        processes, posts = self.processes, list[tuple[str, Packet]]()
        for effect in self._effects:
            if isinstance(effect, Transmit):
                packet = effect.packet
                if isinstance(packet, Message):
                    packet = self.replica.order.short(packet)
                for peer in effect.peers:
                    tongue = self._tongues.get(peer)
                    if tongue is not None:
                        to, before = processes.name(peer), tongue.before(packet, self._names, processes)
                        posts += [(to, first) for first in before]
                        posts.append((to, packet))
            else:
                heappush(self._wakes, effect.at)
        self._effects.clear()
        return Output(posts, self._wishes(), self._application.output())

    def _wishes(self) -> dict[str, str | None] | None:
        wishes, processes, wanted = self.overlay.wishes, self.processes, dict[str, str | None]()
        for wish in wishes:
            if isinstance(wish, Connect):
                wanted[processes.name(wish.peer)] = processes.address(wish.peer)
            else:
                wanted[processes.name(wish.peer)] = None
                self._tongues.pop(wish.peer, None)
        wishes.clear()
        return wanted or None

    def drop(self) -> None:
        self._application.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._log.segments > 1 or self.replica.forgets or len(self.processes) > PROCESSES_MOST

    def tidy(self, now: int) -> None:
        self.replica.collect(now)
        if len(self.processes) > PROCESSES_MOST:
            self.processes.keep((*self.overlay.members.mentioned, *self._tongues))
            for tongue in self._tongues.values():
                tongue.forget(self.processes)

    # What a program asks

    @property
    def me(self) -> str:
        return self._names[self.me_index]

    @property
    def members(self) -> tuple[str, ...]:
        """Processes that have sent something, as far as it has come here, and this one."""
        return tuple(sorted({process_of(name) for name in self._names}))

    @property
    def contacts(self) -> dict[str, str]:
        """Whom to ask after a restart, the likeliest first, and where."""
        known = [peer for peer in self.overlay.members.known if peer in self.processes]
        return {self.processes.name(peer): where for peer in known if (where := self.processes.address(peer))}

    @property
    def counts(self) -> dict[str, int]:
        """By incarnation: how many of its messages have come."""
        return dict(sorted(zip(self._names, self.overlay.streams.clock, strict=True)))

    def highest(self, process: str) -> int:
        """The highest number of an incarnation of a process that is known here; 0: none."""
        numbers = [_number(name) for name in self._names if process_of(name) == process]
        return max(numbers, default=0)

    @property
    def position(self) -> int:
        return self.replica.taken

    def tag(self, place: Place) -> LifeTag:
        inner = self.replica.inner(place)
        if inner is None:
            raise UsageError(f"over a tree with order none {place[0]}:{place[1]} has no tag")
        return LifeTag(inner, self.replica.order.name, place, self.replica)

    @property
    def sent(self) -> int:
        return self.replica.sent

    def delivered(self) -> dict[str, int]:
        seen = self.replica.seen
        return {name: count for at, name in enumerate(self._names) if (count := seen(at))}

    def has_delivered(self, place: Place) -> bool:
        return place[1] <= self.delivered().get(place[0], 0)

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        del tag, at
        raise UsageError(f"with order {self.replica.order.name} nothing is told as stable")

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        log, replica = self._log, self.replica
        if after > log.tail:
            raise UsageError(f"position {after} is ahead of this log, which ends at {log.tail}")
        upto = replica.taken
        while replica.inbox and replica.next_position <= after:
            replica.take(now, seen=True)  # and the process ended before that was written down
        return self._repeated(log.since(after), upto, own) if after < upto else iter(())

    def _repeated(self, stored: Iterator[Stored], upto: int, own: bool) -> Iterator[Delivered]:
        for one in stored:
            if one.position > upto:
                return
            if own or not self.replica.is_own(one.dot, one.position):
                message = understood(self.replica.order.codec, one)
                place, tag = self.replica.place(one.dot), self.replica.tag_of(message)
                yield Delivered(tag, message.payload, *place, one.position)


def root_number(name: str) -> int:
    """What names a process as the root of a tree, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(), digest_size=ROOT_BITS // 8).digest(), "big")


def _said(clock: Shared) -> str:
    return f"{clock.entries} entries and {clock.keys} keys"


def _number(name: str) -> int:
    try:
        return number_of(name)
    except ValueError:
        return 0

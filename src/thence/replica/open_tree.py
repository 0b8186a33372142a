"""A process of a tree without tags, whose members come and go: docs/protocols/open-trees.md.

A `contract.Machine`. Names stand at its edge, integers inside (`tree_names`). There is no view that all agree
on: neighbours come by HyParView, members by their first message. What the replica asks for is gathered until
the step is committed.

A process that others know to have sent more than it knows of goes on under another name (`tree_former`):
which number that has is for its shelf to say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Final, Protocol

from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.group_sizes import payload_max
from thence.core.groups import Fragment, FragmentReceipt, Place, incarnation, process_of
from thence.core.machine import NEVER, Effect, Packet, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import ROOT_BITS, Rumour
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync as LogSync
from thence.oplog.record import DOT_BYTES, MAX_BODY
from thence.replica.contract import Output, must_fit
from thence.replica.events import Repeated
from thence.replica.group.surroundings import Application, Diary
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.overlay import Overlay
from thence.replica.tree import TreeReplica
from thence.replica.tree_channel import BULK, TreeChannels
from thence.replica.tree_former import GREET_US, FormerSelf
from thence.replica.tree_names import Processes, Tongue, TreeMembers
from thence.replica.tree_positions import position_of, replay

CLOCK_BYTES: Final = 32 << 10
"""What a record must have room for beside a payload, where messages carry clocks."""

PACKET_BYTES: Final = 1 << 20
"""Messages that travel in one packet; a larger one travels in fragments."""

WINDOW_BYTES: Final = 1 << 20
"""Of fragments under way to one neighbour: what a beat may have to wait behind, some milliseconds of a good
line."""

ME: Final = 9
"""The key of the note that says which incarnation writes this log. Names of others of the same process may
come later: of former ones, or of one that another node has made up."""

PROCESSES_MOST: Final = 4096
"""That are remembered beside those in the views, before the others are forgotten."""


class Made(Protocol):
    """The parts that differ between trees: made for one of these names."""

    def __call__(
        self, me: int, names: list[str], diary: Diary, log: OpLog, processes: Processes
    ) -> tuple[TreeReplica, Overlay]: ...


class OpenTree:
    __slots__ = (
        "_address", "_application", "_channels", "_diaries", "_effects", "_former", "_leaving", "_log",
        "_members", "_next_number", "_wakes", "me_index", "name", "overlay", "processes", "replica",
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
        packet_bytes: int = PACKET_BYTES,
        window_bytes: int = WINDOW_BYTES,
        forgetful: bool = False,
        now: int = 0,
    ) -> None:
        """`contacts`: processes to ask, and where. `next_number`: of another incarnation, reserved for good.
        `packet_bytes`: what is larger travels in fragments, `window_bytes` of which are under way to a
        neighbour. `forgetful`: the log may lack messages that this process has sent, so that it goes on as
        another incarnation."""
        self.name: Final = name
        self._address: Final = address
        self._application: Final = application
        self._diaries: Final = diaries
        self._next_number: Final = next_number
        self._log: Final = log
        self._members: Final = TreeMembers(log)
        own = name in self._members.names or ME in log.notes  # a log of version 1 has no such note
        me = log.notes.get(ME, name.encode()).decode() if own else incarnation(name, next_number())
        self.me_index = self._members.index(me)
        if not own:
            log.note(ME, me.encode())
        self.processes: Final = Processes(name, address)
        for contact, where in contacts.items():
            self.processes.add(contact, where)
        self.replica, self.overlay = make(
            self.me_index, self._members.names, diaries(me), log, self.processes
        )
        self._channels: Final = TreeChannels(
            self._members, self.processes, self.replica.order, self.overlay, packet_bytes, window_bytes
        )
        self._effects: list[Effect] = []
        self._wakes: list[int] = []
        self._leaving = False
        greet_until = now + GREET_US if contacts else 0
        self._former: Final = FormerSelf(name, self._members.names, self.replica, greet_until)
        if own and not forgetful:
            self.replica.tell_again(now)
        if own and forgetful:
            self._become(now, ends=False)
        self._former.begun()
        if greet_until:
            heappush(self._wakes, greet_until)

    def start(self, fresh: bool, now: int) -> None:
        """The process was started: for the first time, or not."""
        self._effects += self.replica.start(fresh, now) if not self._former.born else self.replica.resume(now)

    def resume(self, now: int) -> None:
        """It was built anew, after a write had failed."""
        self._effects += self.replica.resume(now)

    def meet(self, name: str, address: str, now: int) -> None:
        """One more contact."""
        if name != self.name and not self._leaving:
            self._route(self.overlay.meet(self.processes.add(name, address), now), now)

    def part(self) -> None:
        """It is about to leave: nothing is sent any more."""
        self._leaving = True

    def leave(self, now: int) -> None:
        """For good: neighbours are told."""
        self._leaving = True
        self._route(self.overlay.leave(now), now)
        self.replica.left(now)

    def _become(self, now: int, ends: bool) -> None:
        """This process goes on as another incarnation, with all that it has."""
        self._former.born = True
        me = incarnation(self.name, self._next_number())
        self.me_index = self._members.index(me)
        self._log.note(ME, me.encode())
        self.replica.admit()
        self.replica.become(self.me_index, self._diaries(me), now, ends)
        self._former.begun()

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
        return self._former.in_debt

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self._former.waits_for

    @property
    def refuses(self) -> ThenceError | None:
        if self._leaving:
            return UsageError(f"{self.name} leaves")
        return None if self.behind is None else StorageError(self.behind)

    @property
    def behind(self) -> str | None:
        """Why the log is an old copy, if others say so and it is too late to take another name."""
        return self._former.behind

    @property
    def sends_large(self) -> bool:
        """Is a neighbour still to get the rest of something that travels in fragments?"""
        return self._channels.busy

    def encode(self, packet: Packet) -> bytes:
        return self.replica.order.codec.encode(packet)

    def decode(self, data: bytes) -> Packet:
        return self.replica.order.codec.decode(data)

    def link_up(self, peer: str, now: int) -> None:
        index = self.processes.add(peer)
        self._effects += self._channels.up(index)
        self._route(self.overlay.up(index, now), now)

    def link_down(self, peer: str, now: int) -> None:
        index = self.processes.add(peer)
        self._channels.down(index)
        self._route(self.overlay.down(index, now), now)

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        index = self.processes.add(peer)
        channel = self._channels.get(index)
        if channel is None:
            return  # its link was closed
        whole = channel.came(packet)
        if isinstance(packet, Fragment):
            self._effects.append(Transmit((index,), channel.receipt))
            self.overlay.streams.hears(index, now)
            if whole is None:
                return
            packet = self.decode(whole)
            if not isinstance(packet, BULK):
                raise PeerError(f"a {type(packet).__name__} in fragments")
        if isinstance(packet, FragmentReceipt):
            if self._channels.acknowledged(index, packet):
                self._route(self.overlay.release(index, now), now)
        elif not self._channels.agreed(peer, channel.tongue, packet):
            self._received(index, channel.tongue, packet, now)

    def _received(self, index: int, tongue: Tongue, packet: Packet, now: int) -> None:
        known = len(self._members.names)
        plain = tongue.understood(packet, self._members.names)
        if len(self._members.names) > known:
            self.replica.admit()
        if isinstance(plain, Rumour):
            message = self.replica.order.whole(plain)
            if message is None:
                return  # it will come whole, with an answer
            plain = message
        self._check(plain)
        peer = self.processes.name(index)
        if self._former.is_known_better(peer, plain, self.me_index):
            self._become(now, ends=True)
        self._former.greeted(peer, plain, self.me_index)
        self._effects += self.replica.receive(index, plain, now)

    def _check(self, packet: Packet) -> None:
        """Some correct member has sent each of its messages."""
        for message in (packet,) if isinstance(packet, Message) else getattr(packet, "messages", ()):
            self.replica.order.check(message)

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        order, sent = self.replica.order, list[Sent]()
        must_fit(payloads, MAX_BODY - CLOCK_BYTES if order.entries else payload_max(MAX_BODY - DOT_BYTES))
        for run in order.runs(payloads):
            message, effects = self.replica.submit(run, now)
            self._effects += effects
            (me, last), tag = self.replica.place(message.dot), self.replica.tag_of(message)
            sent += [((me, seq), tag) for seq in range(last - len(run) + 1, last + 1)]
        return sent

    def take(self, limit: int, now: int) -> int:
        replica, taken = self.replica, 0
        while taken < limit and replica.inbox:
            taken += replica.take(now)
        if replica.alarms and replica.set_right():
            self._route(self.overlay.alarm(now), now)
        return taken

    def wake(self, now: int) -> None:
        while self._wakes and self._wakes[0] <= now:
            heappop(self._wakes)
        if now >= self._former.greet_until:
            self._former.greet_until = 0
        self._route(self.overlay.wake(now), now)

    def hold(self, peer: str) -> None:
        """Too much waits to be sent to a peer."""
        self._channels.hold(self.processes.add(peer))

    def release(self, peer: str, now: int) -> None:
        index = self.processes.add(peer)
        if self._channels.may_go_on(index):
            self._route(self.overlay.release(index, now), now)

    def _route(self, asked: "list[Message | Transmit | Wake]", now: int) -> None:
        self._effects += self.replica.route(asked, now)

    # A step's end

    def commit(self, now: int) -> Sequence[LogSync | Wake]:
        return self.replica.commit(now)

    def output(self) -> Output:
        posts = self._channels.posts([effect for effect in self._effects if isinstance(effect, Transmit)])
        for effect in self._effects:
            if isinstance(effect, Wake):
                heappush(self._wakes, effect.at)
        self._effects.clear()
        return posts, self._wishes(), self._application.output()

    def _wishes(self) -> dict[str, str | None] | None:
        """A link that is closed and wanted again in one step is closed first."""
        wished, again = self.overlay.wished()
        for peer, wanted in wished.items():
            if not wanted:
                self._channels.down(peer)
        if again:
            heappush(self._wakes, 0)  # at once
        name, address = self.processes.name, self.processes.address
        return {name(peer): address(peer) if wanted else None for peer, wanted in wished.items()} or None

    def linked(self, peer: str) -> bool:
        """Has this process had a link to a peer since it last wanted one closed? What a step asks for may
        leave long after it: then that is done with, and this is another link."""
        index = self.processes.index(peer)
        return index is not None and self._channels.get(index) is not None

    def drop(self) -> None:
        self._application.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._log.segments > 1 or self.replica.forgets or len(self.processes) > PROCESSES_MOST

    def tidy(self, now: int) -> None:
        self.replica.collect(now)
        if len(self.processes) > PROCESSES_MOST:
            self.processes.keep((*self.overlay.members.mentioned, *self._channels))
            self._channels.forget()

    # What a program asks

    @property
    def me(self) -> str:
        return self._members.names[self.me_index]

    @property
    def members(self) -> tuple[str, ...]:
        """Processes that have sent something, as far as it has come here, and this one."""
        return tuple(sorted({process_of(name) for name in self._members.names}))

    @property
    def contacts(self) -> dict[str, str]:
        """Processes to ask after a restart, the likeliest first, and where."""
        known = [peer for peer in self.overlay.members.known if peer in self.processes]
        return {self.processes.name(peer): where for peer in known if (where := self.processes.address(peer))}

    @property
    def counts(self) -> dict[str, int]:
        """By incarnation: how many of its operations have come."""
        return dict(sorted(zip(self._members.names, self.overlay.streams.clock, strict=True)))

    def highest(self, process: str) -> int:
        """The highest number of an incarnation of a process that is known here; 0: none."""
        return self._members.highest(process)

    @property
    def position(self) -> int:
        return position_of(self.replica.taken)

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
        return {name: count for at, name in enumerate(self._members.names) if (count := seen(at))}

    def has_delivered(self, place: Place) -> bool:
        return place[1] <= self.delivered().get(place[0], 0)

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        del tag, at
        raise UsageError(f"with order {self.replica.order.name} nothing is told as stable")

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        return replay(self.replica, self._log, after, now, own)


def root_number(name: str) -> int:
    """What names a process as the root of a tree, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(), digest_size=ROOT_BITS // 8).digest(), "big")

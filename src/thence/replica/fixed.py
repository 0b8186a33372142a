"""A process of a group without tags over a tree, whose members were named at its start (`contract.Machine`).

Names stand at its edge, indices inside (`replica.live`). What the replica asks for is gathered until the step
is committed.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, seq_of
from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.groups import Place
from thence.core.machine import NEVER, Connect, Effect, LinkEffect, Packet, Transmit, Wake
from thence.core.overlay import Graft
from thence.core.storage import ForgottenError
from thence.members.operations import Operation
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.record import MAX_BODY, Stored
from thence.replica.contract import Output, must_fit
from thence.replica.events import Delivered, Repeated
from thence.replica.group_parts import Application
from thence.replica.history import understood
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.live import Live

STAMP_BYTES: Final = 32 << 10
"""What a frame and a record must have room for beside a payload."""


class FixedMachine:
    __slots__ = (
        "_ahead", "_application", "_effects", "_index", "_log", "_me", "_payload_max", "_wakes", "live",
        "me_index", "names", "replica",
    )  # fmt: skip

    def __init__(
        self,
        live: Live,
        log: OpLog,
        names: Sequence[str],
        me: str,
        application: Application,
        frame_bytes: int = MAX_BODY,
    ) -> None:
        """`frame_bytes`: what a link carries at once."""
        self.live: Final = live
        self.replica: Final = live.replica
        self.names: Final = list(names)
        self._me: Final = me
        self.me_index: Final = self.names.index(me)
        self._index: Final = {name: index for index, name in enumerate(names)}
        self._log: Final = log
        self._application: Final = application
        self._payload_max: Final = min(frame_bytes, MAX_BODY) - STAMP_BYTES
        self._effects: list[Effect] = []
        self._wakes: list[int] = []
        self._ahead: Final[dict[str, str]] = {}
        """Peers that claim to have more of this node's messages than its log, in words."""

    def start(self, fresh: bool, now: int) -> None:
        """The process was started: for the first time, or not."""
        self._effects += self.live.start(now) if fresh else self.replica.restart(now)

    def resume(self, now: int) -> None:
        """It was built anew, after a write had failed."""
        self._effects += self.replica.resume(now)

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
        return False

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ()

    @property
    def refuses(self) -> ThenceError | None:
        """Nothing can be sent while it is not known what was."""
        if self.behind is not None:
            return StorageError(self.behind)
        if not self.replica.regaining:
            return None
        missing = ", ".join(self.names[peer] for peer in self.live.overlay.waiting_for)
        return StorageError(
            f"this node is recovering what it had sent{missing and ', and waits for '}{missing}"
        )

    @property
    def behind(self) -> str | None:
        """Why the log may be an old copy, if others say so."""
        if not self._ahead:
            return None
        return (
            f"{'; '.join(self._ahead.values())}: its data folder is an old copy, or the disk has lost what "
            "was synced (then `thence repair --forgetful` gets it back)"
        )

    def encode(self, packet: Packet) -> bytes:
        return self.live.codec.encode(packet)

    def decode(self, data: bytes) -> Packet:
        return self.live.codec.decode(data)

    def link_up(self, peer: str, now: int) -> None:
        self._effects += self.replica.up(self._index[peer], now)

    def link_down(self, peer: str, now: int) -> None:
        self._effects += self.replica.down(self._index[peer], now)

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        try:
            self._effects += self.replica.receive(self._index[peer], packet, now)
        except ForgottenError as error:  # true or not, it is said over this link alone, and can be taken back
            self._ahead[peer] = str(error)
            raise PeerError(str(error)) from error
        if self._ahead and isinstance(packet, Graft):
            self._ahead.pop(peer, None)  # it says what it has of this node

    def broadcast(self, payloads: Sequence[bytes], now: int) -> list[Sent]:
        must_fit(payloads, self._payload_max)
        dots = [self.replica.submit(payload, now).message.dot for payload in payloads]
        self._effects += self.replica.flush(now)
        return [(self._place(dot), None) for dot in dots]

    def _place(self, dot: int) -> Place:
        return self.names[dot & ORIGIN_MASK], seq_of(dot)

    def take(self, limit: int, now: int) -> int:
        replica, names, taken = self.replica, self.names, 0
        inbox, apply = replica.inbox, self._application.apply
        while taken < limit and inbox:
            message = replica.take(now).message
            taken += 1
            dot = message.dot
            operation = Operation(names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS, message.payload)
            apply(operation, False, None, False, replica.taken, False)
        return taken

    def wake(self, now: int) -> None:
        while self._wakes and self._wakes[0] <= now:
            heappop(self._wakes)
        self._effects += self.replica.wake(now)

    def hold(self, peer: str) -> None:
        """Too much waits to be sent to a peer."""
        self.replica.hold(self._index[peer])

    def release(self, peer: str, now: int) -> None:
        self._effects += self.replica.release(self._index[peer], now)

    # A step's end

    def commit(self, now: int) -> Sequence[Sync | Wake]:
        return self.replica.commit(now)

    def output(self) -> Output:
        names, posts = self.names, list[tuple[str, Packet]]()
        for effect in self._effects:
            if isinstance(effect, Transmit):
                posts += [(names[peer], effect.packet) for peer in effect.peers]
            else:
                heappush(self._wakes, effect.at)
        self._effects.clear()
        return Output(posts, self._wishes(), self._application.output())

    def _wishes(self) -> dict[str, str | None] | None:
        wishes: Sequence[LinkEffect] = self.live.take_wishes()
        if not wishes:
            return None
        return {self.names[wish.peer]: "" if isinstance(wish, Connect) else None for wish in wishes}

    def drop(self) -> None:
        self._application.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._log.segments > 1 or self.live.collect_every_us is not None

    def tidy(self, now: int) -> None:
        self.replica.collect(now)

    # What a program asks

    @property
    def me(self) -> str:
        return self._me

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self.names)

    @property
    def position(self) -> int:
        return self.replica.taken

    def tag(self, place: Place) -> LifeTag:
        raise UsageError(f"over a tree with order none {place[0]}:{place[1]} has no tag")

    @property
    def sent(self) -> int:
        return self.delivered().get(self._me, 0)

    def delivered(self) -> dict[str, int]:
        return {name: count for name, count in zip(self.names, self._log.vector, strict=False) if count}

    def has_delivered(self, place: Place) -> bool:
        return place[1] <= self.delivered().get(place[0], 0)

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        del tag, at
        raise UsageError("over a tree with order none messages have no tags, and nothing is told as stable")

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        log, replica = self._log, self.replica
        if after > log.tail:
            raise UsageError(f"position {after} is ahead of this log, which ends at {log.tail}")
        upto = replica.taken
        while replica.inbox and replica.next_position <= after:
            replica.take(now)  # it had been seen, and the process ended before that was written down
        return self._repeated(log.since(after), upto, own) if after < upto else iter(())

    def _repeated(self, stored: Iterator[Stored], upto: int, own: bool) -> Iterator[Delivered]:
        for one in stored:
            if one.position > upto:
                return
            if own or one.dot & ORIGIN_MASK != self.me_index:
                payload = understood(self.live.codec, one).payload
                yield Delivered(None, payload, *self._place(one.dot), one.position)

"""One TCP connection, from its first byte to its last: handshake, then packets, then its one end.

The decisions are elsewhere (frames, handshake, pacing): this carries bytes between them and a transport, and
sets their timers. It works on any event loop and with transports only: streams would copy every read.

Invariants: the owner hears `connection_up` at most once, `connection_down` exactly once and nothing but
`connection_gone` after that, which follows every `connection_open`. No garbage of a peer raises past here,
and a bug goes to the owner, not to the event loop, which would go on as if nothing had happened.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final, ParamSpec, Protocol, cast

from thence.core.errors import PeerError
from thence.runtime.frames import (
    MOST_EARLY_FRAME,
    PING,
    PONG,
    REFUSE,
    VERSION,
    Framer,
    join,
    link_frame,
    take_frame,
)
from thence.runtime.handshake import Handshake, read_refusal, refusal
from thence.runtime.hello import RefusalError
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, DelayLine, LinkLimits, Pulse, pulse

P = ParamSpec("P")

_PING: Final = join([link_frame(PING)])
_PONG: Final = join([link_frame(PONG)])
PONG_QUEUE_BYTES_MOST: Final = 64 << 10
"""With more than this on its way the peer hears from us anyway; one that never reads cannot pile up pongs."""


class End(Enum):
    """Why a connection is over, as far as it matters for what comes next."""

    LOST = "lost"
    SILENT = "silent"
    REFUSED = "refused"
    MISBEHAVED = "misbehaved"
    CLOSED = "closed"
    """By us, on purpose."""


READ_BYTES: Final = 16 << 10
"""Taken from a link at once. What one read brings is one step, and everything else waits for its end: the
more it brings, the less each message costs, and the longer timers, people and other links wait. This is some
200 small messages, or a few milliseconds."""


class Owner(Protocol):
    def connection_open(self, connection: "Connection") -> None:
        """There is a transport to be closed one day."""
        ...

    def connection_up(self, connection: "Connection", now: int) -> None:
        """The handshake is over, both sides agree."""
        ...

    def connection_packets(self, connection: "Connection", packets: list[bytes], now: int) -> None:
        """May raise `PeerError`."""
        ...

    def connection_down(self, connection: "Connection", end: End, why: str) -> None: ...

    def connection_gone(self, connection: "Connection") -> None: ...

    def stops(self, error: Exception) -> None:
        """Something went wrong that is no peer's fault."""
        ...


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer", "_check_due_us", "_clock", "_delay_timer", "_early", "_framer", "_limits", "_loop",
        "_owner", "_queue_bytes_most", "_settings", "_timer", "_transport", "bytes_in", "delay", "ended",
        "handshake", "heard_us", "is_up", "peer_name",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, handshake: Handshake, settings: LinkSettings, limits: LinkLimits, clock: Clock
    ) -> None:
        self._owner: Final = owner
        self._settings: Final = settings
        self._limits: Final = limits
        self._queue_bytes_most: Final = limits.queue_bytes_most
        self._clock: Final = clock
        self._loop: Final = asyncio.get_running_loop()
        self._framer: Final = Framer(settings.frame_bytes_max)
        self._buffer: Final = memoryview(bytearray(READ_BYTES))
        self._early = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._delay_timer: asyncio.TimerHandle | None = None
        self._check_due_us = 0
        self.handshake: Final = handshake
        self.delay: DelayLine | None = None
        self.heard_us = 0
        self.bytes_in = 0
        self.peer_name = ""
        """The peer that the owner takes it for."""
        self.is_up = False
        self.ended = False

    @property
    def remote(self) -> str:
        """Where it comes from, for logs."""
        where = self._transport.get_extra_info("peername") if self._transport else None
        return f"{where[0]}:{where[1]}" if where else "nowhere"

    @property
    def host(self) -> str:
        return self.remote.rpartition(":")[0]

    @property
    def descriptor(self) -> int:
        """Of its socket."""
        sock = self._transport.get_extra_info("socket") if self._transport else None
        return -1 if sock is None else int(sock.fileno())

    @property
    def queued_bytes(self) -> int:
        waiting = self._transport.get_write_buffer_size() if self._transport else 0
        return waiting + (self.delay.queued_bytes if self.delay else 0)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._safely(self._made, transport)

    def _made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.connection_open(self)
        if self.ended:
            self._transport.abort()
            return
        self._timer = self._after(self._settings.handshake_timeout_us, self._handshake_too_slow)
        first = self.handshake.start()
        if first:
            self._transport.write(join(first))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """The bytes of one read."""
        if self.ended:
            return
        try:
            if self.is_up:
                packets = self._framer.feed(data)
                self.bytes_in += len(data)
                now = self.heard_us = self._clock()
                if self._framer.own:
                    self._take_own()
                if packets:
                    self._owner.connection_packets(self, packets, now)
            else:
                self._greet(data)
        except RefusalError as refused:
            self._safely(self.end, End.REFUSED, str(refused), tell=refused.told)
        except PeerError as error:
            told = f"cut off: {error}" if self.is_up else None
            self._safely(self.end, End.MISBEHAVED, str(error), tell=told)
        except Exception as error:
            self._owner.stops(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._safely(self._lost, exc)

    def _lost(self, exc: Exception | None) -> None:
        self.end(End.LOST, f"connection lost: {exc}" if exc else "closed by the other side")
        if self._timer:
            self._timer.cancel()
        self._owner.connection_gone(self)

    def _safely(self, act: Callable[P, object], *words: P.args, **named: P.kwargs) -> None:
        try:
            act(*words, **named)
        except Exception as error:
            self._owner.stops(error)

    # Bytes in.

    def _greet(self, data: bytes) -> None:
        self._early += data
        while not self.handshake.done:
            frame = take_frame(self._early, MOST_EARLY_FRAME)
            if frame is None:
                return
            answers = self.handshake.take(frame)
            if answers and self._transport:
                self._transport.write(join(answers))
        self._begin()
        if self._early and not self.ended:
            rest, self._early = bytes(self._early), bytearray()
            self.data_received(rest)

    def _begin(self) -> None:
        now = self._clock()
        self.is_up = True
        self.heard_us = now
        if self._timer:
            self._timer.cancel()
        self._look_at(now + self._settings.silence_us // 3, now)
        self._owner.connection_up(self, now)

    def _take_own(self) -> None:
        """Frames of the link: a read full of pings is worth one pong."""
        frames, self._framer.own = self._framer.own, []
        pinged = False
        for frame in frames:
            kind = frame[1]
            if frame[0] != VERSION:
                raise PeerError(f"a link frame of version {frame[0]}")
            if kind == REFUSE:
                raise read_refusal(frame)
            if kind not in (PING, PONG) or len(frame) != 2:
                raise PeerError(f"a frame of kind {kind} and {len(frame)} bytes on a link")
            pinged = pinged or kind == PING
        if pinged and self.queued_bytes <= PONG_QUEUE_BYTES_MOST:
            self.send(_PONG)

    # Bytes out.

    def send(self, data: bytes) -> None:
        """Frames, joined. Nothing is said if they cannot leave any more: `down` says it."""
        transport = self._transport
        if self.ended or transport is None:
            return
        if self.delay is None and transport.get_write_buffer_size() + len(data) <= self._queue_bytes_most:
            transport.write(data)
        elif self.queued_bytes + len(data) > self._queue_bytes_most:
            self.end(End.SILENT, f"it does not take what it is sent: {self.queued_bytes} bytes wait")
        elif self.delay is not None:
            self.delay.put(self._clock(), data)
            self._plan_delayed()

    def slow(self, delay_us: int) -> None:
        if self.delay is None:
            if delay_us == 0:
                return
            self.delay = DelayLine()
        self.delay.delay_us = delay_us

    def _plan_delayed(self) -> None:
        if self._delay_timer is None and self.delay and self.delay.next_us is not None:
            self._delay_timer = self._after(self.delay.next_us - self._clock(), self._send_delayed)

    def _send_delayed(self) -> None:
        self._delay_timer = None
        if self.delay is None or self._transport is None:
            return
        data = self.delay.take(self._clock())
        if data:
            self._transport.write(data)
        if self.delay.next_us is None and self.delay.delay_us == 0:
            self.delay = None
        else:
            self._plan_delayed()

    # Time.

    def _after(self, delay_us: int, call: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(delay_us, 0) / 1_000_000, self._safely, call)

    def _handshake_too_slow(self) -> None:
        self.end(End.LOST, "the handshake took too long")

    def _look_at(self, due_us: int, now: int) -> None:
        self._check_due_us = due_us
        self._timer = self._after(due_us - now, self._look)

    def _look(self) -> None:
        now = self._clock()
        what, again_us = pulse(now, self.heard_us, self._check_due_us, self._settings.silence_us)
        if what is Pulse.SILENT:
            self.end(End.SILENT, f"silent for {(now - self.heard_us) / 1_000_000:.1f} s")
            return
        if what is Pulse.PING:
            self.send(_PING)
        if not self.ended:
            self._look_at(again_us, now)

    # The end.

    def end(self, end: End, why: str, *, tell: str | None = None, drop: bool = False) -> None:
        """Ends it, if it has not ended yet: the one way out for every reason. `drop`: what is buffered is
        not worth sending, or cannot be sent."""
        if self.ended:
            return
        self.ended = True
        for timer in (self._timer, self._delay_timer):
            if timer:
                timer.cancel()
        self._timer = self._delay_timer = None
        if self._transport is not None:
            if drop or end in (End.SILENT, End.LOST):
                self._transport.abort()
            else:
                self._leave(self._transport, tell)
        self._safely(self._owner.connection_down, self, end, why)

    def _leave(self, transport: asyncio.Transport, tell: str | None) -> None:
        """What is buffered goes out first, but the peer cannot hold us up by not reading it."""
        if self.delay:
            transport.write(self.delay.take_all())
        if tell is not None:
            transport.write(join([refusal(tell)]))
        transport.close()
        self._timer = self._after(self._limits.drain_us, transport.abort)

    def abort(self) -> None:
        """Also of one that has ended: what still was to leave is dropped."""
        self.end(End.CLOSED, "dropped", drop=True)
        if self._transport is not None:
            self._transport.abort()

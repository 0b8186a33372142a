"""What a node remembers about its link to one peer.

The link is in a stage, and goes from one to another by the methods below, through the table. Each stage has
its part: a peer that waits has a timer, one that is dialled a connection that shakes hands, one that is up a
link; no other stage has any of them.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from thence.core.stages import Stage, Transitions
from thence.runtime.address import Address
from thence.runtime.hello import Introduction
from thence.runtime.link import Connection, End


class PeerStage(Stage):
    IDLE = "idle"
    """There is no link, and this end does nothing about it: the other one dials, or neither needs one."""
    WAITING = "waiting"
    """It will be dialled, at a time."""
    DIALLING = "dialling"
    """A connection is being made, or shakes hands."""
    UP = "up"
    """There is a link."""
    CUT = "cut"
    """As if the network between the two were gone: no link is made or accepted."""


_S: Final = PeerStage

PEER: Final = Transitions(
    "a peer",
    _S.IDLE,
    [
        (_S.IDLE, "a link is needed", _S.WAITING),
        ((_S.IDLE, _S.WAITING), "is dialled", _S.DIALLING),
        (_S.DIALLING, "is dialled in vain", _S.IDLE),
        ((_S.WAITING, _S.DIALLING), "need not be dialled", _S.IDLE),
        ((_S.IDLE, _S.DIALLING), "has shaken hands", _S.UP),
        (_S.UP, "goes down", _S.IDLE),
        (_S.UP, "is not needed", _S.IDLE),
        (tuple(_S), "is cut on request", _S.CUT),
        (_S.CUT, "goes down", _S.CUT),
        (_S.CUT, "is mended", _S.IDLE),
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """Of one peer, for people and metrics."""

    address: Address
    up: bool
    cut: bool
    """On request, see `Links.cut`."""
    since_us: int
    """When it went up or down."""
    delay_us: int
    queued_bytes: int
    reconnects: int
    cut_offs: int
    refusals: int
    frames_in: int
    bytes_in: int
    frames_out: int
    bytes_out: int
    trouble: str
    """Why it is not up, as far as that is known."""


class Peer:
    __slots__ = (
        "_bytes_in", "_dialling", "_ups", "address", "bytes_out", "cut_offs", "delay_us", "dials", "failures",
        "frames_in", "frames_out", "heard_us", "last", "link", "name", "pending", "refusals",
        "shunned_until_us", "since_us", "stage", "timer", "trouble", "wanted",
    )  # fmt: skip

    def __init__(self, name: str, address: Address, *, dials: bool, now: int) -> None:
        self.name: Final = name
        self.address = address
        self.dials = dials
        """We dial it, not it us."""
        self.stage = PeerStage.IDLE
        self.link: Connection | None = None
        self.pending: Connection | None = None
        """Of a dial, until its handshake is over."""
        self.timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self.failures = 0
        """In a row; sets the length of the next wait."""
        self.shunned_until_us = 0
        self.last: Introduction | None = None
        """How it introduced itself when it was let in the last time."""
        self.wanted = False
        """Where links are made on demand: the node has asked for one and not been told what became of it."""
        self.delay_us = 0
        self.since_us = now
        self.trouble = ""
        self.cut_offs = 0
        self.refusals = 0
        self.heard_us = now
        """When its last packet came, or its link."""
        self.frames_in = 0
        self.frames_out = 0
        self.bytes_out = 0
        self._bytes_in = 0
        self._ups = 0

    def is_copy(self, theirs: Introduction) -> bool:
        """Whether another process already was here with the same log and boot: a process counts its boot up
        before it says it, so two that say the same have the same data folder."""
        last = self.last
        return last is not None and last.identity == theirs.identity and last.instance != theirs.instance

    @property
    def cut(self) -> bool:
        return self.stage is PeerStage.CUT

    def _move(self, cause: str) -> None:
        self.stage = PEER.after(self.stage, cause)

    def waits(self, timer: asyncio.TimerHandle) -> None:
        """To be dialled when that is due."""
        self._move("a link is needed")
        self.timer = timer

    def dialled(self, connection: Connection, dialling: asyncio.Task[None]) -> None:
        self._move("is dialled")
        self.timer = None
        self.pending = connection
        self._dialling = dialling

    def dialled_in_vain(self) -> None:
        self._move("is dialled in vain")
        self.pending = None
        self.failures += 1

    def came_up(self, link: Connection, theirs: Introduction, now: int) -> None:
        self._move("has shaken hands")
        self.link = link
        self.pending = None
        self.wanted = False
        self.last = theirs
        self.since_us = self.heard_us = now
        self.trouble = ""
        self._ups += 1

    def went_down(self, end: End, why: str, now: int, steady_us: int) -> None:
        self._move("goes down")
        if self.link is not None:
            self._bytes_in += self.link.bytes_in
        self.link = None
        self.failures = 1 if now - self.since_us >= steady_us else self.failures + 1
        self.since_us = now
        self.count(end, why)

    def left(self, now: int) -> Connection | None:
        """This node has no more use for its link, if there is one; it is to be closed."""
        link, self.link = self.link, None
        if link is None:
            return None
        self._move("is not needed")
        self._bytes_in += link.bytes_in
        self.failures = 0
        self.since_us = now
        self.trouble = ""
        return link

    def cut_on_request(self) -> None:
        self._move("is cut on request")
        if self.link is not None:
            self.link.abort()
        self.stop_dialling()

    def mended(self) -> None:
        """Also of one that was not cut: what came of its own conduct is forgotten."""
        if self.cut:
            self._move("is mended")
        self.shunned_until_us = 0
        self.failures = 0

    def count(self, end: End, why: str) -> None:
        self.trouble = why
        if end is End.REFUSED:
            self.refusals += 1
        elif end is End.MISBEHAVED:
            self.cut_offs += 1

    def stop_dialling(self) -> None:
        if self.stage in (PeerStage.WAITING, PeerStage.DIALLING):
            self._move("need not be dialled")
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        if self.pending is not None:
            pending, self.pending = self.pending, None
            pending.abort()

    def status(self) -> LinkStatus:
        link = self.link
        return LinkStatus(
            address=self.address,
            up=link is not None,
            cut=self.cut,
            since_us=self.since_us,
            delay_us=self.delay_us,
            queued_bytes=link.queued_bytes if link else 0,
            reconnects=max(self._ups - 1, 0),
            cut_offs=self.cut_offs,
            refusals=self.refusals,
            frames_in=self.frames_in,
            bytes_in=self._bytes_in + (link.bytes_in if link else 0),
            frames_out=self.frames_out,
            bytes_out=self.bytes_out,
            trouble=self.trouble,
        )

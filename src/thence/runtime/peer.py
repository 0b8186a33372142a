"""What a node remembers about its link to one peer."""

import asyncio
from dataclasses import dataclass
from typing import Final

from thence.runtime.address import Address
from thence.runtime.introductions import Introduction
from thence.runtime.link import Connection, End


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
        "_bytes_in", "_ups", "address", "bytes_out", "cut", "cut_offs", "delay_us", "dialling", "dials",
        "failures", "frames_in", "frames_out", "heard_us", "last", "link", "name", "pending", "refusals",
        "shunned_until_us", "since_us", "timer", "trouble", "wanted",
    )  # fmt: skip

    def __init__(self, name: str, address: Address, *, dials: bool, now: int) -> None:
        self.name: Final = name
        self.address = address
        self.dials = dials
        """We dial it, not it us."""
        self.link: Connection | None = None
        self.pending: Connection | None = None
        """Of a dial, until its handshake is over."""
        self.timer: asyncio.TimerHandle | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.failures = 0
        """In a row; sets the length of the next wait."""
        self.shunned_until_us = 0
        self.last: Introduction | None = None
        """As whom it was let in the last time."""
        self.cut = False
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
        """Whether somebody else already was here with the same log and boot: a process counts its boot up
        before it says it, so two that say the same have the same data folder."""
        last = self.last
        return last is not None and last.identity == theirs.identity and last.instance != theirs.instance

    def came_up(self, link: Connection, theirs: Introduction, now: int) -> None:
        self.link = link
        self.pending = None
        self.wanted = False
        self.last = theirs
        self.since_us = self.heard_us = now
        self.trouble = ""
        self._ups += 1

    def went_down(self, end: End, why: str, now: int, steady_us: int) -> None:
        if self.link is not None:
            self._bytes_in += self.link.bytes_in
        self.link = None
        self.failures = 1 if now - self.since_us >= steady_us else self.failures + 1
        self.since_us = now
        self.count(end, why)

    def left(self, link: Connection, now: int) -> None:
        """This node has no more use for its link."""
        self._bytes_in += link.bytes_in
        self.failures = 0
        self.since_us = now
        self.trouble = ""

    def count(self, end: End, why: str) -> None:
        self.trouble = why
        if end is End.REFUSED:
            self.refusals += 1
        elif end is End.MISBEHAVED:
            self.cut_offs += 1

    def stop_dialling(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.dialling is not None:
            self.dialling.cancel()
            self.dialling = None
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

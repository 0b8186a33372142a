"""Short ways to a log on a fake disk."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from thence.core.dots import pack
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.sim.disk import Disk

SMALL = LogSettings(sync="always", segment_bytes=400, spacing=3)
"""Segments of a handful of records: everything that happens at their borders happens soon."""


def a_disk(seed: int = 1) -> Disk:
    return Disk(Random(seed))


def a_log(disk: Disk, *names: str, settings: LogSettings = SMALL, now: int = 0) -> OpLog:
    """An open, booted log that knows these members."""
    log = OpLog.open(disk, settings, now)
    log.boot(1, b"machine", now)
    for name in names:
        log.member(name)
    log.sync(now)
    return log


def payload(dot: int, length: int = 20) -> bytes:
    """A message's bytes, recognisable."""
    return (b"%x." % dot * length)[:length]


E = TypeVar("E", bound=Exception)


def caught(kind: type[E], call: Callable[[], object]) -> E | None:
    """The error of this kind that the call raised, if it did."""
    try:
        call()
    except kind as error:
        return error
    return None


def fill(log: OpLog, counts: dict[int, int], now: int = 0, each: int = 1) -> list[int]:
    """Append so many more messages of each member, in turns, a commit for every `each`; their dots."""
    vector = list(log.vector)
    left = dict(counts)
    dots = []
    while left:
        for origin in list(left):
            vector[origin] += 1
            dots.append(pack(origin, vector[origin]))
            log.append(dots[-1], payload(dots[-1]))
            if len(dots) % each == 0:
                log.sync(now)
            left[origin] -= 1
            if not left[origin]:
                del left[origin]
    log.sync(now)
    return dots

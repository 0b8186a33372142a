"""Disks for tests of the log: real files in a folder, and short ways to a log on a fake one."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

from thence.core.dots import pack
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings
from thence.sim.disk import Disk


class RealFiles:
    """`Files` over a folder, as plainly as can be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def names(self) -> list[str]:
        return sorted(os.listdir(self._folder))

    def size(self, name: str) -> int:
        return (self._folder / name).stat().st_size

    def read(self, name: str, offset: int, count: int) -> bytes:
        return os.pread(self._fd(name), count, offset)

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        try:
            written = os.pwrite(self._fd(name), data, offset)
        except OSError as error:
            raise DiskError(str(error), file=name) from error
        if written != len(data):
            raise DiskError("a short write", file=name)

    def truncate(self, name: str, size: int) -> None:
        os.ftruncate(self._fd(name), size)

    def sync(self, name: str) -> None:
        os.fsync(self._fd(name))

    def rename(self, old: str, new: str) -> None:
        self._forget(old)
        self._forget(new)
        (self._folder / old).rename(self._folder / new)

    def remove(self, name: str) -> None:
        self._forget(name)
        (self._folder / name).unlink()

    def sync_folder(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)

    def _fd(self, name: str) -> int:
        if name not in self._open:
            self._open[name] = os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o644)
        return self._open[name]

    def _forget(self, name: str) -> None:
        if name in self._open:
            os.close(self._open.pop(name))


SMALL = Settings(sync="always", segment_bytes=400, spacing=3)
"""Segments of a handful of records: everything that happens at their borders happens soon."""


def a_disk(seed: int = 1) -> Disk:
    return Disk(Random(seed))


def a_log(disk: Disk, *names: str, settings: Settings = SMALL, now: int = 0) -> OpLog:
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

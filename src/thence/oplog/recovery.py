"""Opening a log: find out what is there, and refuse to guess.

1. Files that a crash left half-made go: temporary ones, an index without its segment, a last segment
   whose header was still being written.
2. Every header is read. A sealed segment is compared with the checksum in its index file; without a good
   index file it is scanned, and the file made again. Neighbours must fit together.
3. The last segment is scanned record by record. At the first bad one the question is whether a write was
   cut short or something was damaged that had once been whole (`is_torn`). A torn tail is cut off and
   reported; damage raises `DamageError` and changes nothing on the disk.
4. Snapshot files that no record refers to go.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from zlib import crc32

from thence.core.storage import DamageError, Files, ReadableFiles
from thence.oplog.index import Index
from thence.oplog.record import CRC, HEAD, KIND_BYTES, OVERHEAD, SYNCED, WORD, Stored
from thence.oplog.segment import (
    CHUNK_BYTES,
    INDEX,
    LOG,
    SNAPSHOT,
    TEMPORARY,
    Segment,
    encode_header,
    file_name,
    new_segment,
    position_of,
    read_header,
    scan,
    understand,
)
from thence.oplog.settings import LogSettings
from thence.oplog.state import ReplayedState
from thence.oplog.writer import enter, seal

SEARCHED_BYTES = 4 << 20
"""Longest record that the search for a whole one after a bad one believes in; it would otherwise spend
minutes on checksums of what random bytes claim to be."""


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did."""

    cut_file: str = ""
    cut_at: int = 0
    cut_bytes: int = 0
    removed: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people: what was not as it should be."""
        cut = f"{self.cut_file}: a torn end of {self.cut_bytes} bytes was cut off at byte {self.cut_at}"
        return [
            *([cut] if self.cut_bytes else []),
            *[f"{name}: left over, removed" for name in self.removed],
            *[f"{name}: index made again" for name in self.rebuilt],
        ]


@dataclass(slots=True)
class Recovered:
    segments: list[Segment]
    state: ReplayedState
    report: RecoveryReport


def recover(files: Files, settings: LogSettings, power_lost: bool, now: int) -> Recovered:
    report = RecoveryReport()
    _sweep(files, report)
    loaded = _headers(files, settings, report, now)
    for at, (segment, state) in enumerate(loaded[:-1]):
        following, next_state = loaded[at + 1]
        _sealed(files, settings, segment, state, next_state, report)
        if segment.last + 1 != following.first:
            raise DamageError(
                f"{following.name} does not follow this file",
                file=segment.name,
                offset=segment.size,
                affected=f"records from position {segment.last + 1} to {following.first - 1}",
            )
    segment, state = loaded[-1]
    _last(files, segment, state, power_lost, report)
    kept = {file_name(kept.position, SNAPSHOT) for kept in state.snapshots}
    for name in files.names():
        if position_of(name, SNAPSHOT) is not None and name not in kept:
            _remove(files, name, report)
    return Recovered([segment for segment, _ in loaded], state, report)


def _remove(files: Files, name: str, report: RecoveryReport) -> None:
    files.remove(name)
    report.removed.append(name)


def _sweep(files: Files, report: RecoveryReport) -> None:
    names = files.names()
    logs = [name for name in names if position_of(name, LOG) is not None]
    for name in names:
        first = position_of(name, INDEX)
        stray = first is not None and (file_name(first, LOG) not in logs or file_name(first, LOG) == logs[-1])
        if stray or name.endswith(TEMPORARY):
            _remove(files, name, report)
    for name in names:
        if position_of(name, SNAPSHOT) is not None and not logs:
            raise DamageError("a snapshot without a log", file=name, offset=0, affected="the whole log")


def _headers(
    files: Files, settings: LogSettings, report: RecoveryReport, now: int
) -> list[tuple[Segment, ReplayedState]]:
    """All segments as far as their headers tell, and the state before each. A new log gets its first."""
    logs = [name for name in files.names() if position_of(name, LOG) is not None]
    loaded: list[tuple[Segment, ReplayedState]] = []
    for name in logs:
        try:
            loaded.append(read_header(files, name, settings.spacing))
        except DamageError:
            if name != logs[-1] or not _half_made(files, name, loaded, settings):
                raise
            _remove(files, name, report)
            files.sync_folder()
    if not loaded:
        loaded.append(_found(files, settings, now))
    return loaded


def _found(files: Files, settings: LogSettings, now: int) -> tuple[Segment, ReplayedState]:
    state = ReplayedState()
    header = encode_header(1, now, state)
    segment = new_segment(header, 1, now, state, settings.spacing)
    files.write(segment.name, 0, header)
    files.sync(segment.name)
    files.sync_folder()
    return segment, state


def _half_made(
    files: Files, name: str, loaded: list[tuple[Segment, ReplayedState]], settings: LogSettings
) -> bool:
    """Can this be a segment whose header was being written when everything stopped? Records follow only
    after the header was synced, and it is known how long it would have become."""
    if loaded:
        segment, state = loaded[-1]
        with suppress(DamageError):  # it will be found again, and reported as what it is
            _scan_all(files, segment, state, files.size(segment.name))
        loaded[-1] = read_header(files, segment.name, settings.spacing)
    else:
        if position_of(name, LOG) != 1:
            return False
        state = ReplayedState()
    return files.size(name) <= len(encode_header(0, 0, state))


def _scan_all(files: Files, segment: Segment, state: ReplayedState, end: int) -> None:
    """Count every record of the segment, leaving in it and in `state` whatever was good."""
    for position, offset, kind, body in scan(files, segment, segment.body_at, end, segment.last):
        record = understand(segment, position, offset, kind, body)
        try:
            enter(segment, state, position, offset, record.dot if isinstance(record, Stored) else record)
        except ValueError as error:
            affected = f"records after position {position - 1} in this file"
            raise DamageError(str(error), file=segment.name, offset=offset, affected=affected) from error
        segment.size = offset + len(body) + OVERHEAD


def _crc(files: Files, name: str, end: int) -> int:
    crc = at = 0
    while at < end:
        data = files.read(name, at, min(CHUNK_BYTES * 4, end - at))
        if not data:
            break
        crc = crc32(data, crc)
        at += len(data)
    return crc


def _sealed(
    files: Files,
    settings: LogSettings,
    segment: Segment,
    state: ReplayedState,
    after: ReplayedState,
    report: RecoveryReport,
) -> None:
    """Complete what is known of a sealed segment, from its index file or by reading it."""
    size = files.size(segment.name)
    name = file_name(segment.first, INDEX)
    sealed = None
    if name in files.names():
        sealed = Index.decode(files.read(name, 0, files.size(name)), settings.spacing)
    if (
        sealed is not None
        and (sealed.seed, sealed.size) == (segment.seed, size)
        and (not settings.verify_sealed or _crc(files, segment.name, size) == sealed.crc)
    ):
        segment.index, segment.last, segment.size = sealed.index, sealed.last, size
        segment.crc = sealed.crc
        return
    _scan_all(files, segment, state, size)
    if state.encode() != after.encode():
        raise DamageError(
            "the next file was begun from another state than this one ends in",
            file=segment.name,
            offset=size,
            affected="records at the end of this file",
        )
    segment.crc = _crc(files, segment.name, size)
    if name in files.names():
        files.remove(name)
    seal(files, segment)
    report.rebuilt.append(name)


def _last(
    files: Files, segment: Segment, state: ReplayedState, power_lost: bool, report: RecoveryReport
) -> None:
    size = files.size(segment.name)
    try:
        _scan_all(files, segment, state, size)
    except DamageError as damage:
        if damage.offset != segment.size or not is_torn(files, segment, size, power_lost):
            raise
        report.cut_file, report.cut_at, report.cut_bytes = segment.name, segment.size, size - segment.size
        files.truncate(segment.name, segment.size)
        files.sync(segment.name)
    segment.crc = _crc(files, segment.name, segment.size)


def is_torn(files: ReadableFiles, segment: Segment, size: int, power_lost: bool) -> bool:
    """The record at the segment's end so far is bad: was its write cut short? Then nothing whole comes
    after it. After a power cut there may be, since a disk writes blocks in any order; then only a mark
    that says that the bad bytes had been synced proves damage."""
    bad = segment.size
    tail = files.read(segment.name, bad, size - bad)
    if _whole(tail, 0, bad, segment.seed):
        return False  # its checksum is right and it makes no sense: no tear does that
    for at in _candidates(tail):
        if _whole(tail, at, bad, segment.seed) and (not power_lost or _proves(tail, at, bad)):
            return False
    return True


def _whole(tail: bytes, at: int, base: int, seed: int) -> bool:
    """Does a record with the right checksum stand there?"""
    if at + OVERHEAD > len(tail):
        return False
    stop = at + HEAD.size + HEAD.unpack_from(tail, at)[0]
    if stop + CRC.size > len(tail):
        return False
    return bool(crc32(tail[at:stop], seed ^ base + at) == CRC.unpack_from(tail, stop)[0])


def _proves(tail: bytes, at: int, bad: int) -> bool:
    """Does the record there say that the bad one had been synced?"""
    length, kind = HEAD.unpack_from(tail, at)
    if kind != SYNCED or length != WORD.size:
        return False
    return bool(WORD.unpack_from(tail, at + HEAD.size)[0] > bad)


def _candidates(tail: bytes) -> Iterator[int]:
    """Where in the bytes after a bad record others may begin."""
    if len(tail) >= HEAD.size:
        yield HEAD.unpack_from(tail)[0] + OVERHEAD  # there, if only its body is bad
    for match in re.finditer(KIND_BYTES, tail):
        at = match.start() - HEAD.size + 1
        if at > 0 and HEAD.unpack_from(tail, at)[0] <= SEARCHED_BYTES:
            yield at

"""Traces of a process in a changing group: each of its incarnations writes as a node of its own.

A file per incarnation and boot, in the form of `tracing`; its first row says which process and incarnation
the node is. The rows of a step gather here and are written by
the driver after the log's commit and before anything of the step leaves. After a crash the log is told once
more, from its last snapshot on (`group.incarnations`): rows that the files of earlier boots hold already are
passed over, the others complete the trace, and `restart` follows. That works because rows of one kind about
one origin come in the order of its counters, so that the highest of each tells what was written. An `install`
is about every origin that its state counts (over a tree without tags an incarnation takes over several), and
is passed over if those before it count as much.

A process that is killed between two incarnations leaves the older one without its last row. So at a start
every incarnation of the process that does not run and has not ended is ended with `crash`.
"""

import os
import re
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Final

from thence.core.errors import StorageError
from thence.core.groups import MARK, Place, number_of, process_of
from thence.replica.group.surroundings import Closed
from thence.runtime.tracing import LiveTrace, Rows, file_stem, lines_backwards, read_line
from thence.trace.lines import POSITION_BITS, head_of
from thence.trace.recorder import (
    CRASH,
    DELIVER,
    EACH_TIME,
    INSTALL,
    KINDS,
    LEAVE,
    RESTART,
    SEND,
    START,
)

ENDS: Final = (KINDS[LEAVE], KINDS[CRASH])

Key = tuple[int, str]
"""A kind, and the member that its rows are about."""


class TraceWriter:
    """`group.surroundings.Diary` of one incarnation."""

    writes: Final = True

    __slots__ = ("_boot", "_folder", "_head", "_lives", "_member", "_mute", "_next", "_quoted", "_rows",
                 "_told", "_undo", "delivered_bytes", "state_bytes", "trace")  # fmt: skip

    def __init__(self, folder: Path, member: str, boot: int, run: str = "", lives: bool = True) -> None:
        """`lives`: what this incarnation sends follows from what former ones of its process did."""
        self._lives: Final = lives
        self._folder: Final = folder
        self._member: Final = member
        self._boot: Final = boot
        self._head: Final = head_of(member, run)
        self._next = boot << POSITION_BITS
        self._quoted: dict[str, str] = {}
        self._rows: list[str] = []
        self._undo: list[tuple[Key, int | None]] = []
        self._told: dict[Key, int] = told(folder, member)
        self._mute = not self._told
        """Nothing was ever told, so it must begin at a beginning: `start`, `install` or `restart`."""
        self.trace: LiveTrace | None = None
        self.delivered_bytes = 0
        """What programs had given for the messages that were delivered since the start."""
        self.state_bytes = 0
        """Of the states that came since the start."""

    @property
    def ended(self) -> bool:
        return (CRASH, "") in self._told

    def is_ahead(self, count: Callable[[str], int]) -> bool:
        told = [(origin, seq) for (kind, origin), seq in self._told.items() if kind in (SEND, DELIVER)]
        return any(seq > count(origin) for origin, seq in told)

    def has_row(self, kind: int, about: Place) -> bool:
        return about[1] <= self._told.get((kind, about[0]), -1)

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        carries: tuple[Place, ...] = (),
        *,
        channel: str = "",
        key: int = 0,
        dest: tuple[str, ...] = (),
        size: int = 0,
    ) -> None:
        """`channel`: that a message is sent to, or that the node is a member of from here on or not any more;
        of the latter a later row has a larger `key`. `dest`: the addressees of a message. `size`: of what is
        delivered, or of a state that came, its bytes."""
        if self._mute:
            if kind not in (START, INSTALL, RESTART):
                return
            self._mute = False
        if kind not in EACH_TIME:
            told, news = self._told, False
            for origin, seq in _subjects(kind, about or (channel, key), deps):
                before = told.get((kind, origin))
                if before is None or seq > before:
                    self._undo.append(((kind, origin), before))
                    told[kind, origin] = seq
                    news = True
            if not news:
                return
        if kind == DELIVER:
            self.delivered_bytes += size
        else:
            self.state_bytes += size
        place = f',"origin":{self._quote(about[0])},"seq":{about[1]}' if about else ""
        named = ""
        if deps is not None:
            named = f',"deps":[{self._dots(deps)}]'
        if carries:
            named += f',"carries":[{self._dots(carries)}]'
        if channel:
            named += f',"channel":{self._quote(channel)}' + (f',"key":{key}' if about is None else "")
        if dest:
            named += f',"dest":[{",".join(map(self._quote, dest))}]'
        self._rows.append(f'{self._head}{self._next},"kind":"{KINDS[kind]}"{place},"at_us":{now}{named}}}\n')
        self._next += 1

    def _dots(self, places: tuple[Place, ...]) -> str:
        return ",".join([f'{{"origin":{self._quote(name)},"seq":{seq}}}' for name, seq in places])

    def _quote(self, name: str) -> str:
        quoted = self._quoted.get(name)
        if quoted is None:
            quoted = self._quoted[name] = dumps(name)
        return quoted

    def take(self) -> bytes:
        """The rows of the step, which is committed."""
        data = "".join(self._rows).encode("ascii")
        self._rows.clear()
        self._undo.clear()
        if data and self.trace is None:
            self.trace = LiveTrace(self._folder, self._member, self._boot)
            if not self._lives:
                return data
            process, number = dumps(process_of(self._member)), number_of(self._member)
            data = f'{{"process":{process},"incarnation":{number},'.encode() + data[1:]
        return data

    def take_back(self) -> None:
        """The step was not committed: it never happened."""
        for key, before in reversed(self._undo):
            if before is None:
                del self._told[key]
            else:
                self._told[key] = before
        self._rows.clear()
        self._undo.clear()
        self._mute = not self._told


class TraceWriters:
    """All diaries of a process. Without a folder there are none."""

    __slots__ = ("_boot", "_diaries", "_folder", "_lives", "_run")

    def __init__(self, folder: Path | None, boot: int, run: str = "", lives: bool = True) -> None:
        """`run`: its name in the trace. `lives`: see `TraceWriter`."""
        self._lives: Final = lives
        self._run: Final = run
        self._folder: Final = folder
        self._boot: Final = boot
        self._diaries: dict[str, TraceWriter] = {}

    def __call__(self, member: str) -> "TraceWriter | Closed":
        if self._folder is None:
            return NOTHING
        diary = self._diaries.get(member)
        if diary is None:
            diary = self._diaries[member] = TraceWriter(
                self._folder, member, self._boot, self._run, self._lives
            )
        return diary

    def take(self) -> Rows:
        rows: Rows = []
        for diary in self._diaries.values():
            data = diary.take()
            if data and diary.trace is not None:
                rows.append((diary.trace, data))
        return rows

    def take_back(self) -> None:
        for diary in self._diaries.values():
            diary.take_back()

    @property
    def delivered_bytes(self) -> int:
        return sum(diary.delivered_bytes for diary in self._diaries.values())

    @property
    def state_bytes(self) -> int:
        return sum(diary.state_bytes for diary in self._diaries.values())

    @property
    def waiting(self) -> bool:
        """Something could not be written: it goes first when that is possible again."""
        if not self._diaries:
            return False
        return any(diary.trace is not None and diary.trace.waiting for diary in self._diaries.values())

    def write_waiting(self) -> None:
        for diary in self._diaries.values():
            if diary.trace is not None:
                diary.trace.write(b"")

    def end_others(self, process: str, running: str, now: int) -> None:
        """Incarnations of the process that have a trace without an end, and do not run."""
        if self._folder is None:
            return
        for member in traced(self._folder, process):
            if member != running and not has_ended(self._folder, member):
                # Where a disk was lost, boots are counted anew, and the trace has seen them all.
                boot = max(self._boot, last_boot(self._folder, member) + 1)
                self._diaries[member] = TraceWriter(self._folder, member, boot, self._run, self._lives)
                self._diaries[member].row(CRASH, None, None, now)

    def close(self) -> None:
        for diary in self._diaries.values():
            if diary.trace is not None:
                diary.trace.close()


NOTHING: Final = Closed()


def traced(folder: Path, process: str) -> list[str]:
    """The incarnations of a process that wrote into this folder."""
    own = re.compile(rf"{re.escape(file_stem(process))}({re.escape(MARK)}[0-9]+)?-[0-9]+\.jsonl")
    return sorted({process + (match[1] or "") for name in _names(folder) if (match := own.fullmatch(name))})


def told(folder: Path, member: str) -> dict[Key, int]:
    """What earlier boots of an incarnation have written: of each kind and origin, the highest."""
    kinds = {kind: code for code, kind in enumerate(KINDS)}
    found: dict[Key, int] = {}
    for path in _files_of(folder, member):
        try:
            with path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):  # else a write was cut short: it is told again
                        row = read_line(path, line)
                        kind = kinds.get(row.kind, -1)
                        about = row.origin or row.channel or "", row.seq or row.key
                        frontier = row.frontier if kind == INSTALL else None
                        for origin, seq in _subjects(kind, about, frontier):
                            found[kind, origin] = max(found.get((kind, origin), 0), seq)
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
    return found


def _subjects(kind: int, about: Place | None, deps: tuple[Place, ...] | None) -> tuple[Place, ...]:
    """The members that a row is about, and up to which counter."""
    about = about or ("", 0)
    return (about, *deps) if kind == INSTALL and deps else (about,)


def has_ended(folder: Path, member: str) -> bool:
    """Is the last row of an incarnation one after which nothing comes?"""
    for path in reversed(_files_of(folder, member)):
        for line in lines_backwards(path):
            return read_line(path, line).kind in ENDS
    return True  # it never wrote anything


def last_boot(folder: Path, member: str) -> int:
    """Under which an incarnation wrote last; 0: it never did."""
    return max([boot for boot, _ in _boots(folder, member)], default=0)


def next_boot(folder: Path, process: str, boots: int) -> int:
    """After all under which incarnations of a process wrote, on this disk (`boots`) or on a lost one."""
    return 1 + max([boots, *(last_boot(folder, member) for member in traced(folder, process))])


def _files_of(folder: Path, member: str) -> list[Path]:
    """The files of an incarnation, by boot."""
    return [path for _, path in sorted(_boots(folder, member))]


def _boots(folder: Path, member: str) -> list[tuple[int, Path]]:
    own = re.compile(rf"{re.escape(file_stem(member))}-([0-9]+)\.jsonl")
    return [(int(match[1]), folder / name) for name in _names(folder) if (match := own.fullmatch(name))]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot read the trace folder {folder}: {error.strerror}") from error

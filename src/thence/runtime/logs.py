"""What a node tells people as it runs: one line per event, written by a thread of its own.

A step must not wait for a terminal, a pipe or a full disk. So an event is put into a bounded queue, and the
writer does the formatting and the waiting. When the queue is full, events are dropped and counted, and the
number is told as soon as there is room: a log with holes says so.

Invariants: an event is told as it was at the call, in the order of the calls; nothing that happens to the
stream reaches the node; `close` (at the latest: the interpreter's normal exit) writes everything that was
taken.
"""

import atexit
import json
import math
import re
import threading
import time
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Final, Literal, NamedTuple, Protocol, TextIO

from thence.core.errors import UsageError

Level = Literal["debug", "info", "warn", "error"]
Format = Literal["text", "json"]

LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warn", "error")
FORMATS: Final[tuple[Format, ...]] = ("text", "json")

QUEUE: Final = 10_000
"""Some megabytes at most, and more than a person reads; code that logs more than this in one go is broken."""
BATCH: Final = 256
"""Lines per write: few calls when much is told, soon on the screen when little is."""
PATIENCE_S: Final = 5.0
"""How long `close` waits for a stream that does not take anything: a stuck pipe must not keep a node up."""

MOST_CHARS: Final = 2_000
"""Of one value: what a peer gives as its reason may be long, and the queue counts events, not bytes."""

_KEPT: Final = (str, int, float, type(None))
"""Cannot change until they are written."""

_PLAIN: Final = re.compile(r"[!#-<>-\[\]-~]+")
"""Needs no quotes: printable ASCII without spaces, quotes, equal signs and backslashes."""


class NodeLog(Protocol):
    """What the parts of a node ask of a log."""

    def info(self, event: str, **fields: object) -> None: ...
    def warn(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, **fields: object) -> None: ...


class LogEvent(NamedTuple):
    time_ns: int
    level: Level
    event: str
    fields: dict[str, object]


class StructuredLog:
    __slots__ = ("_closed", "_dropped", "_from", "_limit", "_queue", "_show", "_stream", "_writer", "lost")

    def __init__(self, level: str, format: str, stream: TextIO, limit: int = QUEUE) -> None:
        if level not in LEVELS:
            raise UsageError(f"there is no log level {level!r}: take {', '.join(LEVELS)}")
        if format not in FORMATS:
            raise UsageError(f"there is no log format {format!r}: take {', '.join(FORMATS)}")
        self._from: Final = LEVELS.index(level)
        self._show: Final = as_text if format == "text" else as_json
        self._stream: Final = stream
        self._limit: Final = limit
        self._queue: SimpleQueue[LogEvent | None] = SimpleQueue()
        self._dropped = 0
        self._closed = False
        self.lost = 0
        """Lines that the stream did not take."""
        self._writer: Final = threading.Thread(target=self._write_all, name="thence-log", daemon=True)
        self._writer.start()
        atexit.register(self.close)

    def debug(self, event: str, **fields: object) -> None:
        if self._from <= 0:
            self._put("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        if self._from <= 1:
            self._put("info", event, fields)

    def warn(self, event: str, **fields: object) -> None:
        if self._from <= 2:
            self._put("warn", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._put("error", event, fields)

    def close(self) -> None:
        """Write what is queued; whatever comes after this is dropped."""
        atexit.unregister(self.close)
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._writer:
            self._writer.join(PATIENCE_S)

    def _put(self, level: Level, event: str, fields: dict[str, object]) -> None:
        if self._closed or self._queue.qsize() >= self._limit:
            self._dropped += 1
            return
        for name, value in fields.items():
            if not isinstance(value, _KEPT) or (isinstance(value, str) and len(value) > MOST_CHARS):
                fields[name] = _frozen(value)
        self._queue.put(LogEvent(time.time_ns(), level, event, fields))

    def _write_all(self) -> None:
        told = 0
        ended = False
        while not ended:
            batch = [self._queue.get()]
            try:
                while len(batch) < BATCH and batch[-1] is not None:
                    batch.append(self._queue.get_nowait())
            except Empty:
                pass
            ended = batch[-1] is None
            lines = [self._line(event) for event in batch if event is not None]
            dropped = self._dropped
            if dropped > told:
                gone: dict[str, object] = {"count": dropped - told, "why": "the queue of the log was full"}
                lines.append(self._show(LogEvent(time.time_ns(), "warn", "log_events_dropped", gone)))
                told = dropped
            self._write(lines)

    def _line(self, event: LogEvent) -> str:
        try:
            return self._show(event)
        except Exception as error:  # one odd value must not end the writer, and with it the whole log
            return self._show(event._replace(fields={"fields_lost": f"{type(error).__name__}: {error}"}))

    def _write(self, lines: list[str]) -> None:
        if not lines:
            return
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # full, gone, or closed under us: the node goes on without
            self.lost += len(lines)


def as_text(event: LogEvent) -> str:
    return f"{_when(event.time_ns)} {event.level:<5} {as_words(event)}"


def as_words(event: LogEvent) -> str:
    """Without time and level."""
    pairs = "".join(f" {_plain(name)}={_plain(_shown(value))}" for name, value in event.fields.items())
    return f"{_plain(event.event)}{pairs}"


def as_json(event: LogEvent) -> str:
    line: dict[str, object] = {
        "time": _when(event.time_ns), "level": event.level, "event": event.event,
    }  # fmt: skip
    for name, value in event.fields.items():
        infinite = isinstance(value, float) and not math.isfinite(value)
        line[f"{name}_" if name in line else name] = repr(value) if infinite else value
    return json.dumps(line)  # ASCII only: whatever a peer calls itself, the line stays one line


def _when(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def _frozen(value: object) -> str:
    """As text, now: by the time the writer gets there, the thing may be another."""
    try:
        text = value[:MOST_CHARS].hex() if isinstance(value, bytes) else str(value)
        return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + "…"
    except Exception as error:  # a broken __str__ must not stop a node
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)

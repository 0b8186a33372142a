"""What a node inside a program tells: records of the standard `logging`, under the logger `thence`.

The program decides where they go. Without handlers of its own, Python writes warnings and errors to stderr.
A record's message is the line that a node process would write, without time and level; `record.event` and
`record.fields` are the same in parts. Unlike in a node process no thread of ours stands between: a handler
that waits makes the node wait (`logging.handlers.QueueHandler` does not).

Invariant: nothing that a handler does reaches the node.
"""

import logging
from typing import Final

from thence.runtime.logs import LogEvent, as_words

LOGGER: Final = "thence"

_LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR,
}  # fmt: skip


class ProgramLog:
    """`logs.Log` of a node that a program has opened."""

    __slots__ = ("_from", "_logger")

    def __init__(self, level: str, logger: str = LOGGER) -> None:
        """`level`: nothing below it becomes a record, whatever level the logger has."""
        self._from: Final = _LEVELS[level]
        self._logger: Final = logging.getLogger(logger)

    def debug(self, event: str, **fields: object) -> None:
        self._tell(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._tell(logging.INFO, event, fields)

    def warn(self, event: str, **fields: object) -> None:
        self._tell(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._tell(logging.ERROR, event, fields)

    def close(self) -> None:
        """Handlers are the program's."""

    def _tell(self, level: int, event: str, fields: dict[str, object]) -> None:
        if level < self._from or not self._logger.isEnabledFor(level):
            return
        try:
            words = as_words(LogEvent(0, "info", event, fields))
            self._logger.log(level, "%s", words, extra={"event": event, "fields": fields})
        except Exception:  # a handler of the program's, or a value that cannot be shown
            logging.lastResort.handle(  # type: ignore[union-attr]
                logging.LogRecord(LOGGER, logging.ERROR, "", 0, f"cannot log {event!r}", (), None)
            )

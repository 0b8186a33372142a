"""For redis-py: a connection that carries its session to whichever node it connects to next.

    pool = redis.ConnectionPool(connection_class=thence.client.SessionConnection, host=…, port=…)
    client = redis.Redis(connection_pool=pool)

All connections with the same `session` share what they have seen: none of them reads less than another has
read or written, at any node. The newest token is asked for with the first reply after each `token_every_s`;
one that connects attaches it first. What was written within that time before a connection broke may be
missed.
"""

import time
from typing import Any

from redis.connection import Connection

DEFAULT = "default"


class Tokens:
    """The newest token of each session."""

    def __init__(self) -> None:
        self.newest: dict[str, bytes] = {}


TOKENS = Tokens()


def forget(session: str = DEFAULT) -> None:
    """Its connections attach to nothing any more: after an error that begins with THENCE. THENCENOTYET: what
    the session has seen is at a node that is away; THENCETOKEN: it is of another group, say of one that was
    made anew from a backup."""
    TOKENS.newest.pop(session, None)


class SessionConnection(Connection):
    def __init__(
        self,
        *words: Any,
        session: str | None = None,
        token_every_s: float = 0.1,
        attach_ms: int = 5000,
        **named: Any,
    ) -> None:
        self._session = session or DEFAULT
        self._every_s = token_every_s
        self._attach_ms = attach_ms
        self._asked_at = 0.0
        self._asking = True
        super().__init__(*words, **named)

    def on_connect(self) -> None:
        """Not before this node has what the session has seen."""
        self._asking = True
        super().on_connect()
        token = TOKENS.newest.get(self._session)
        if token is not None:
            self.send_command("THENCE.ATTACH", token, "TIMEOUT", self._attach_ms)
            super().read_response()
        self._asking = False

    def read_response(self, *words: Any, **named: Any) -> Any:
        reply = super().read_response(*words, **named)
        now = time.monotonic()
        if not self._asking and now - self._asked_at >= self._every_s and not self.can_read(0):
            self._asking = True
            try:
                self.send_command("THENCE.SESSION")
                token = super().read_response(disable_decoding=True)
                if isinstance(token, bytes):
                    TOKENS.newest[self._session] = token
            finally:
                self._asking = False
            self._asked_at = now
        return reply

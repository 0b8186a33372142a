"""Whether the other end of a connection has gone, where nothing is read that would tell. Linux does."""

import asyncio
import socket
from typing import Final

TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)
GONE: Final = frozenset({7, 8})
"""States of a connection (`TCP_CLOSE`, `TCP_CLOSE_WAIT`): its other end sends no more."""


def has_gone(transport: asyncio.Transport | None) -> bool:
    here = None if transport is None else transport.get_extra_info("socket")
    if here is None or TCP_INFO is None:
        return False
    state: bytes = here.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)
    return state[0] in GONE

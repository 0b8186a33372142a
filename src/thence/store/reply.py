"""Replies: values that a command answers, and their bytes in RESP2 and RESP3.

`None` is null, `str` a simple string, `bytes` a bulk string, `float` a double, a list an array, a dict a map.
The classes below are what the two versions of the protocol write differently.
"""

from collections.abc import Sequence
from typing import Any, Final

from thence.crdt.numbers import double_text

Reply = Any
"""What a command answers; one of the above or below."""

OK: Final = "OK"

REPLY_MAX: Final = 512 << 20
"""Bytes of one reply: a few words may ask for the same large value a million times."""

FEW: Final = 8
"""Replies of no more elements are not measured: none of them can be that large."""


class Fail(Exception):  # noqa: N818  # an error of Redis' own, as clients see it
    """An error reply: its text begins with its code."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NullArray:
    """What RESP2 writes as an array that is not there."""


NULL_ARRAY: Final = NullArray()


class NoReply:
    """Nothing is written."""


NO_REPLY: Final = NoReply()


class Members(list[Any]):
    """A set."""


class Pairs(list[Any]):
    """Members with scores: pairs in RESP3, flat in RESP2."""


class Verbatim(bytes):
    """Text for people."""


class Push(list[Any]):
    """Out of band."""


def encode(reply: Reply, proto: int, out: list[bytes]) -> None:
    if reply is OK:
        out.append(b"+OK\r\n")
    elif isinstance(reply, bytes):
        if proto == 3 and type(reply) is Verbatim:
            out.append(b"=%d\r\ntxt:%b\r\n" % (len(reply) + 4, reply))
        else:
            out.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif reply is None:
        out.append(b"$-1\r\n" if proto == 2 else b"_\r\n")
    elif isinstance(reply, bool):
        out.append((b"#t\r\n" if reply else b"#f\r\n") if proto == 3 else b":%d\r\n" % reply)
    elif isinstance(reply, int):
        out.append(b":%d\r\n" % reply)
    elif isinstance(reply, str):
        out.append(b"+%b\r\n" % reply.encode())
    elif isinstance(reply, float):
        text = double_text(reply)
        out.append(b",%b\r\n" % text if proto == 3 else b"$%d\r\n%b\r\n" % (len(text), text))
    elif isinstance(reply, list | tuple):
        _encode_list(reply, proto, out)
    elif isinstance(reply, dict):
        out.append(b"%%%d\r\n" % len(reply) if proto == 3 else b"*%d\r\n" % (2 * len(reply)))
        for key, value in reply.items():
            encode(key, proto, out)
            encode(value, proto, out)
    elif isinstance(reply, Fail):
        text = reply.text.encode(errors="surrogateescape").replace(b"\r", b" ").replace(b"\n", b" ")
        out.append(b"-%b\r\n" % text)
    elif reply is NULL_ARRAY:
        out.append(b"*-1\r\n" if proto == 2 else b"_\r\n")


def _encode_list(reply: Sequence[Any], proto: int, out: list[bytes]) -> None:
    if isinstance(reply, Pairs) and proto == 2:
        reply = [each for pair in reply for each in pair]
    sign = b"*"
    if proto == 3:
        sign = b"~" if isinstance(reply, Members) else b">" if isinstance(reply, Push) else sign
    out.append(b"%b%d\r\n" % (sign, len(reply)))
    for each in reply:
        encode(each, proto, out)


def bounded(reply: Reply) -> Reply:
    """The same, or an error if it has too many bytes."""
    if isinstance(reply, list) and len(reply) > FEW and _size(reply) > REPLY_MAX:
        return Fail(f"ERR the reply has more than {REPLY_MAX} bytes")
    return reply


def _size(reply: Reply) -> int:
    if isinstance(reply, bytes):
        return len(reply)
    return sum(map(_size, reply)) if isinstance(reply, list) else 0

"""How a side introduces itself, in memory and as bytes: the contents of a hello and of a welcome, and the
credentials that follow once the other side has proven itself.

A log's id and its boot tell a node from another that took its name: no stranger is told them. Whatever was
read from a peer has names that can be printed and fields of bounded length, or it was not read.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from secrets import token_bytes
from typing import Final

from thence.core.errors import PeerError, UsageError
from thence.core.varint import Reader, put

PROTOCOL: Final = 3
"""What the sides of a link understand of each other; told first, so that all later versions can read it."""

NONCE_BYTES: Final = 32
INSTANCE_BYTES: Final = 8
MOST_NAME_BYTES: Final = 255
MOST_LOG_ID_BYTES: Final = 64
MOST_BOOT: Final = (1 << 23) - 1
"""Positions in a log are a boot and 40 bits, 63 together."""
MOST_STARTS: Final = 1 << 20
"""Between two meetings: one every second for twelve days. A boot that leaps further was made up, and would
keep the process that it belongs to from ever being believed again."""


def draw_nonce() -> bytes:
    return token_bytes(NONCE_BYTES)


def draw_instance() -> bytes:
    return token_bytes(INSTANCE_BYTES)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a side says of itself."""

    cluster: str
    name: str
    log_id: bytes
    """Empty: it has no log yet."""
    boot: int

    def check(self) -> None:
        for what, text in (("cluster", self.cluster), ("name", self.name)):
            if not text.isprintable() or not 0 < len(text.encode()) <= MOST_NAME_BYTES:
                raise UsageError(f"a {what} has 1 to {MOST_NAME_BYTES} printable bytes, not {text!r}")
        if len(self.log_id) > MOST_LOG_ID_BYTES or not 0 <= self.boot <= MOST_BOOT:
            raise UsageError("a log's id has up to 64 bytes, a boot up to 23 bits")


def leap(name: str, boot: int, known: int) -> str | None:
    """A reason to refuse a process that says it was started so often, if it was known to have been less."""
    if boot <= known + MOST_STARTS:
        return None
    return f"{name} says that it was started {boot} times, and {known} times when it was here last"


class Purpose(IntEnum):
    LINK = 0
    ASK = 1


@dataclass(frozen=True, slots=True)
class Introduction:
    """A hello or, without its proof, a welcome."""

    identity: Identity
    """Of one that has not proven itself: without its log and boot."""
    target: str
    """The node that it means to reach; empty: any that is there."""
    aim: Purpose
    instance: bytes
    """Drawn when the process starts: a copy of a data folder has the same log and boot, but not this."""
    nonce: bytes


class RefusalError(PeerError):
    """One side does not want the other. `told`: what to say to the peer, None: nothing."""

    def __init__(self, why: str, *, told: str | None, by_peer: bool = False) -> None:
        super().__init__(why)
        self.told: Final = told
        self.by_peer: Final = by_peer


def _put_bytes(out: bytearray, data: bytes) -> None:
    put(out, len(data))
    out += data


def put_introduction(introduction: Introduction) -> bytes:
    out = bytearray()
    put(out, PROTOCOL)
    put(out, introduction.aim)
    _put_bytes(out, introduction.identity.cluster.encode())
    _put_bytes(out, introduction.identity.name.encode())
    _put_bytes(out, introduction.target.encode())
    return bytes(out) + introduction.instance + introduction.nonce


def put_credentials(identity: Identity) -> bytes:
    """What only peers are told that have proven themselves."""
    out = bytearray()
    _put_bytes(out, identity.log_id)
    put(out, identity.boot)
    return bytes(out)


def _take_text(reader: Reader, what: str, least: int = 1) -> str:
    data = reader.take_bytes(reader.take())
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise PeerError(f"a {what} that is no text") from None
    if not least <= len(data) <= MOST_NAME_BYTES or not text.isprintable():
        raise PeerError(f"a {what} that no correct peer has")
    return text


def take_introduction(reader: Reader) -> Introduction:
    protocol = reader.take()
    if protocol != PROTOCOL:
        why = f"protocol version {protocol}, where this is version {PROTOCOL}"
        raise RefusalError(why, told=why)
    aim = reader.take()
    if aim not in tuple(Purpose):
        raise PeerError(f"a hello with aim {aim}")
    cluster = _take_text(reader, "cluster")
    name = _take_text(reader, "name")
    target = _take_text(reader, "name", least=0)
    instance, nonce = reader.take_bytes(INSTANCE_BYTES), reader.take_bytes(NONCE_BYTES)
    return Introduction(Identity(cluster, name, b"", 0), target, Purpose(aim), instance, nonce)


def take_credentials(reader: Reader, of: Introduction) -> Introduction:
    """The same side, with the log and the boot that it says it has."""
    log_id, boot = reader.take_bytes(reader.take()), reader.take()
    if len(log_id) > MOST_LOG_ID_BYTES or boot > MOST_BOOT:
        raise PeerError("a log's id or a boot that no correct peer has")
    return replace(of, identity=replace(of.identity, log_id=log_id, boot=boot))

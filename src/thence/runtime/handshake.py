"""The handshake of a link: who is there, and does it know the secret? For both roles, without a socket.

        opener                          acceptor
          │ hello ─────────────────────────▶ │  version, cluster, names: refused in words
          │ ◀───────────── welcome + proof   │
          │ credentials + proof ───────────▶ │  now the asker is known: `admit`
          │ ◀─ credentials + proof | answer  │  the first: ready
  `admit` │ agreed ────────────────────────▶ │

A proof is an HMAC over the whole exchange so far and the role: nothing said can be swapped for something
else, nothing can be sent back to its sender, and with a fresh nonce from each side an old exchange is
worth nothing. Reasons that a person needs are told (`refuse`); that a proof is wrong is not explained.

Credentials (a log's id and its boot) are told to a side that has proven to know the secret, by the acceptor
only to one that it lets in: a process that knows them, and the secret, passes for their node.

An opener that only asks for the group (`Purpose.ASK`, see discovery.py) may leave open which node it means to
reach and may have no log yet; it gets an answer instead of a link.

Invariant: `admit` sees only a side that has proven itself; `peer` is set only once that side was admitted,
or, where there will be no link, has proven itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final

from thence.core.errors import PeerError
from thence.core.varint import Reader
from thence.runtime.frames import AGREED, ANSWER, HELLO, PROOF, READY, REFUSE, VERSION, WELCOME, link_frame
from thence.runtime.hello import (
    Identity,
    Introduction,
    Purpose,
    RefusalError,
    put_credentials,
    put_introduction,
    take_credentials,
    take_introduction,
)

PROOF_BYTES: Final = 32
MOST_REASON_BYTES: Final = 1000
NOT_TOLD: Final = "not let in"
"""All that a peer learns whose proof is wrong."""


@dataclass(frozen=True, slots=True)
class HandshakePolicy:
    """What an acceptor needs to know of the node."""

    expects: Callable[[Introduction], str | None]
    """A reason to refuse a peer that claims to be this, before any proof; None: go on."""
    admit: Callable[[Introduction, str], str | None]
    """The same, of a peer that has proven it, and comes from this host."""
    answer: Callable[[Introduction], bytes]
    """To one that asks for the group: the body of the answer."""


def _prove(secret: bytes, role: bytes, *frames: bytes) -> bytes:
    said = b"".join([len(frame).to_bytes(4, "little") + frame for frame in frames])
    return hmac_digest(secret, b"thence link " + role + said, "sha256")


def _refuse(why: str) -> RefusalError:
    return RefusalError(why, told=why)


def refusal(reason: str) -> bytes:
    data = reason.encode(errors="replace")[:MOST_REASON_BYTES]
    return link_frame(REFUSE, data)


def read_refusal(frame: bytes) -> RefusalError:
    text = frame[2 : 2 + MOST_REASON_BYTES].decode(errors="replace")
    # It goes into logs and onto terminals: nothing in it may act there.
    clean = "".join([char if char.isprintable() else "\ufffd" for char in text])
    return RefusalError(f"refused by the other side: {clean}", told=None, by_peer=True)


def _body(frame: bytes, kind: int) -> Reader:
    """The body of a frame that must be of this kind."""
    if frame[0] != VERSION:
        raise _refuse(f"frames of version {frame[0]}, where this is version {VERSION}")
    if frame[1] == REFUSE:
        raise read_refusal(frame)
    if frame[1] != kind:
        raise PeerError(f"a frame of kind {frame[1]} where {kind} was due")
    return Reader(frame, 2, len(frame))


def _end(reader: Reader) -> None:
    if reader.at != reader.end:
        raise PeerError(f"{reader.end - reader.at} bytes too many in a handshake")


def _check(reader: Reader, secret: bytes, role: bytes, *frames: bytes) -> None:
    """The rest of a frame is the proof of one that knows the secret."""
    proof = reader.take_bytes(PROOF_BYTES)
    _end(reader)
    if not compare_digest(_prove(secret, role, *frames), proof):
        raise RefusalError("a wrong proof: it does not know this cluster's secret", told=NOT_TOLD)


class Opener:
    """The side that connects. `start`, then `take` each frame until `done`."""

    __slots__ = (
        "_admit",
        "_claimed",
        "_expects",
        "_hello",
        "_me",
        "_said",
        "_secret",
        "answer",
        "done",
        "peer",
    )

    def __init__(self, me: Introduction, secret: bytes, admit: Callable[[Introduction], str | None]) -> None:
        self._me: Final = me
        self._secret: Final = secret
        self._admit: Final = admit
        self._hello: Final = link_frame(HELLO, put_introduction(me))
        self._expects = WELCOME
        self._said: tuple[bytes, ...] = ()
        """All frames until now."""
        self._claimed: Introduction | None = None
        self.peer: Introduction | None = None
        self.answer: bytes | None = None
        self.done = False

    def start(self) -> list[bytes]:
        return [self._hello]

    def take(self, frame: bytes) -> list[bytes]:
        """What to send in return. `PeerError`: it is over; `RefusalError` says what to tell the peer."""
        if self.done:
            raise PeerError("a handshake that goes on after its end")
        if self._expects == WELCOME:
            return self._welcome(frame)
        reader = _body(frame, self._expects)
        if self._expects == ANSWER:
            self.answer = frame[2:]
            self.done = True
            return []
        return self._ready(reader, frame)

    def _ready(self, reader: Reader, frame: bytes) -> list[bytes]:
        assert self._claimed
        peer = take_credentials(reader, self._claimed)
        _check(reader, self._secret, b"ready", *self._said, frame[:-PROOF_BYTES])
        reason = self._admit(peer)
        if reason is not None:
            raise _refuse(reason)
        self.peer = peer
        self.done = True
        return [link_frame(AGREED)]

    def _welcome(self, frame: bytes) -> list[bytes]:
        reader = _body(frame, WELCOME)
        peer = take_introduction(reader)
        proof = reader.take_bytes(PROOF_BYTES)
        _end(reader)
        me, they = self._me.identity, peer.identity
        if they.cluster != me.cluster:
            raise _refuse(f"{they.name} belongs to cluster {they.cluster}, {me.name} to {me.cluster}")
        if self._me.target and they.name != self._me.target:
            raise _refuse(f"{me.name} means to reach {self._me.target}, not {they.name}")
        wanted = _prove(self._secret, b"acceptor", self._hello, frame[:-PROOF_BYTES])
        if not compare_digest(wanted, proof) or peer.target != me.name or peer.aim != self._me.aim:
            raise RefusalError("the other side does not know this cluster's secret", told=NOT_TOLD)
        self._claimed = peer
        if self._me.aim is Purpose.LINK:
            self._expects = READY
        else:
            self._expects, self.peer = ANSWER, peer
        proof = link_frame(PROOF, put_credentials(me))
        self._said = (self._hello, frame, proof + _prove(self._secret, b"opener", self._hello, frame, proof))
        return [self._said[-1]]


class Acceptor:
    """The side that listens."""

    __slots__ = (
        "_hello", "_host", "_instance", "_judge", "_me", "_nonce", "_secret", "_welcome", "done", "hello",
        "peer",
    )  # fmt: skip

    def __init__(
        self,
        me: Identity,
        instance: bytes,
        nonce: bytes,
        secret: bytes,
        judge: HandshakePolicy,
        host: str = "",
    ) -> None:
        """`host`: where the other side is."""
        self._me: Final = me
        self._host: Final = host
        self._instance: Final = instance
        self._nonce: Final = nonce
        self._secret: Final = secret
        self._judge: Final = judge
        self._hello = b""
        self._welcome = b""
        self.hello: Introduction | None = None
        """What the peer claims to be."""
        self.peer: Introduction | None = None
        self.done = False

    def start(self) -> list[bytes]:
        return []

    def take(self, frame: bytes) -> list[bytes]:
        """As `Opener.take`."""
        if self.done:
            raise PeerError("a handshake that goes on after its end")
        if self.hello is None:
            return self._meet(frame)
        if self.peer is not None:
            _end(_body(frame, AGREED))
            self.done = True
            return []
        reader = _body(frame, PROOF)
        peer = take_credentials(reader, self.hello)
        _check(reader, self._secret, b"opener", self._hello, self._welcome, frame[:-PROOF_BYTES])
        reason = self._judge.admit(peer, self._host)
        if reason is not None:
            raise _refuse(reason)
        self.peer = peer
        if peer.aim is not Purpose.LINK:
            self.done = True
            return [link_frame(ANSWER, self._judge.answer(peer))]
        ready = link_frame(READY, put_credentials(self._me))
        return [ready + _prove(self._secret, b"ready", self._hello, self._welcome, frame, ready)]

    def _meet(self, frame: bytes) -> list[bytes]:
        reader = _body(frame, HELLO)
        hello = take_introduction(reader)
        _end(reader)
        they, me = hello.identity, self._me
        if they.cluster != me.cluster:
            raise _refuse(f"{they.name} belongs to cluster {they.cluster}, {me.name} to {me.cluster}")
        if hello.aim is not Purpose.ASK and not hello.target:
            raise PeerError("a link to no node in particular")
        if hello.target and hello.target != me.name:
            raise _refuse(f"this is {me.name}, not {hello.target}")
        reason = self._judge.expects(hello)
        if reason is not None:
            raise _refuse(reason)
        self.hello = hello
        self._hello = frame
        mine = Introduction(me, they.name, hello.aim, self._instance, self._nonce)
        welcome = link_frame(WELCOME, put_introduction(mine))
        self._welcome = welcome + _prove(self._secret, b"acceptor", frame, welcome)
        return [self._welcome]


Handshake = Opener | Acceptor

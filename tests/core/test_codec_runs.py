"""Format: messages of trees without tags, one operation or a run, as packets and in logs."""

import json
from pathlib import Path
from zlib import crc32

import pytest

from thence.core.codec import Codec
from thence.core.codec_overlay import OPEN
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.message import Message
from thence.core.overlay import Sync
from thence.core.runs import run_payload, span_of_payload

CODEC = Codec(OPEN, stamps_are_dots=True, run_span=span_of_payload)
BEFORE = Codec(OPEN, stamps_are_dots=True)
"""What earlier versions wrote with, and read."""

GOLDEN = Path(__file__).parent / "golden" / "tree_v1.json"

RUN = [b"first", b"", b"third"]


def message(operations: list[bytes], origin: int = 1, last: int = 300) -> Message:
    payload = operations[0] if len(operations) == 1 else run_payload(operations)
    return Message(pack(origin, last), (), payload, (), len(operations))


def shown(one: Message) -> tuple[int, int, bytes]:
    return one.dot, one.span, one.payload


@pytest.mark.parametrize("origin", [0, 1, OPEN - 1])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 4095])
def test_runs_come_back_with_all_their_operations(count: int, origin: int) -> None:
    sent = message([b"%d" % number for number in range(count)], origin, 5000)
    again = CODEC.decode(CODEC.encode(sent))
    assert isinstance(again, Message)
    assert shown(again) == shown(sent)
    piece = CODEC.decode(CODEC.encode(Sync(1, (sent, message([b"x"], 2)), True)))
    assert isinstance(piece, Sync)
    assert [one.span for one in piece.messages] == [count, 1]


def test_an_operation_that_looks_like_a_run_is_one() -> None:
    sent = message([run_payload(RUN)])
    again = CODEC.decode(CODEC.encode(sent))
    assert isinstance(again, Message)
    assert shown(again) == shown(sent)


def test_one_operation_is_what_it_was() -> None:
    """So logs of earlier versions open, and an earlier version understands what is sent alone."""
    sent = message([b"payload"])
    assert CODEC.encode(message([b"payload"])) == BEFORE.encode(sent)
    assert CODEC.encode(Sync(3, (sent,), True)) == BEFORE.encode(Sync(3, (sent,), True))


def test_an_earlier_version_takes_a_run_for_garbage() -> None:
    for count in (2, 3, 15, 16, 200, 4095):
        with pytest.raises(PeerError):
            BEFORE.decode(CODEC.encode(message([b"x"] * count, last=5000)))


@pytest.mark.parametrize(
    "bad",
    [
        Message(pack(1, 300), (), b"\x06\x91\xc4\x01x", (), 2),
        Message(pack(1, 2), (), run_payload(RUN), (), 3),
        Message(pack(1, 300), (), b"\x06", (), 2),
        Message(pack(1, 300), (), b"no run", (), 2),
    ],
    ids=["of one", "of more than there are", "that ends", "that is none"],
)
def test_what_no_correct_peer_says_of_runs_is_refused(bad: Message) -> None:
    with pytest.raises(PeerError):
        CODEC.decode(CODEC.encode(bad))


def test_messages_are_what_they_were() -> None:
    """Logs hold them: a byte that changes needs another version."""
    said = {
        "operation": CODEC.encode(message([b"payload"])).hex(),
        "run": CODEC.encode(message(RUN)).hex(),
        "piece": CODEC.encode(Sync(3, (message([b"payload"], 2, 7), message(RUN)), True)).hex(),
    }
    assert said == json.loads(GOLDEN.read_text())


HOPS = Codec(10, False, hops=True, run_span=span_of_payload)
HOPS_BEFORE = Codec(10, False, hops=True)
HOP = (1, 0, 2, 7, 1, 3, 5, 6, 0)
"""Zone 1 is told of as the byte that marks a run elsewhere."""


def addressed(operations: list[bytes]) -> Message:
    one = message(operations)
    return Message(one.dot, HOP, one.payload, (3, 4), one.span)


@pytest.mark.parametrize("count", [1, 2, 16, 4095])
def test_an_addressed_run_comes_back_with_its_stamp(count: int) -> None:
    sent = addressed([b"%d" % number for number in range(count)])
    sent = Message(pack(1, 5000), sent.context, sent.payload, sent.dest, sent.span)
    again = HOPS.decode(HOPS.encode(sent))
    assert isinstance(again, Message)
    assert (*shown(again), again.context, again.dest) == (*shown(sent), HOP, (3, 4))


def test_one_addressed_operation_is_what_it_was_even_if_it_looks_like_a_run() -> None:
    for payload in (b"payload", run_payload(RUN)):
        sent = addressed([payload])
        assert HOPS.encode(addressed([payload])) == HOPS_BEFORE.encode(sent)
        again = HOPS.decode(HOPS_BEFORE.encode(sent))
        assert isinstance(again, Message)
        assert shown(again) == shown(sent)


def test_an_addressed_run_is_garbage_where_there_are_none() -> None:
    data = HOPS.encode(addressed(RUN))
    for other in (HOPS_BEFORE, CODEC, Codec(10, False)):
        with pytest.raises(PeerError, match="kind"):
            other.decode(data)
    single = addressed([b"x"])
    lie = bytearray(HOPS.encode(single))[:-4]
    lie[1] = data[1]
    with pytest.raises(PeerError, match="a run of one"):
        HOPS.decode(bytes(lie) + crc32(lie).to_bytes(4, "little"))

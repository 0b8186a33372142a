"""The separator engine: the kit of all engines in one zone, stamps on the wire, what peers may not say."""

from contextlib import suppress
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conformance import ENGINE_CHECKS

from thence.core.codec import Codec
from thence.core.errors import PeerError, UsageError
from thence.core.machine import Ack, Phantom
from thence.core.message import Message
from thence.order.history import RULES, Rules
from thence.order.hops import EACH, HEAD
from thence.order.separator import GatewayOrderer, SeparatorOrderer, SeparatorTagger, separator
from thence.sim.topologies import of_names

IN_ONE_ZONE = [name for name in ENGINE_CHECKS if name != "admission"]
"""`admission` brings a newcomer what was sent before it came; an addressed message is for those it names."""


@pytest.mark.parametrize("check", IN_ONE_ZONE)
@pytest.mark.parametrize("rules", ["1-8", "1-11", "all"])
def test_one_zone_is_an_engine_like_any_other(rules: str, check: str) -> None:
    ENGINE_CHECKS[check](separator(RULES[rules]))


def test_rules_that_need_copies_say_so() -> None:
    with pytest.raises(UsageError, match="need R6"):
        Rules(copies=False)


masks = st.integers(0, (1 << 40) - 1)
rows = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 30), st.integers(1, 10**6), masks, st.one_of(st.just(0), masks)
    ),
    max_size=8,
)


@given(rows, st.integers(0, 2000), st.integers(0, 5), st.integers(0, 100), st.integers(1, 10**7))
def test_hop_stamps_survive_the_wire(
    noted: list[tuple[int, ...]], zone: int, came: int, place: int, counter: int
) -> None:
    codec = Codec(50, stamps_are_dots=False, hops=True)
    context = zone, came, place, counter, *[number for row in sorted(noted) for number in row]
    back = codec.decode(codec.encode(Message(3 << 20 | 7, context, b"x", (1, 2))))
    assert isinstance(back, Message)
    assert (back.dot, back.context, back.payload, back.dest) == (3 << 20 | 7, context, b"x", (1, 2))


def test_acknowledgements_and_words_survive_the_wire() -> None:
    codec = Codec(50, stamps_are_dots=False, hops=True)
    ack = codec.decode(codec.encode(Ack((), (5 << 20 | 3, 6 << 20 | 3))))
    assert isinstance(ack, Ack)
    assert ack.early == (5 << 20 | 3, 6 << 20 | 3)
    word = codec.decode(codec.encode(Phantom((5 << 20 | 3, 9 << 20 | 4), asks=False)))
    assert isinstance(word, Phantom)
    assert word.context == (5 << 20 | 3, 9 << 20 | 4)


@given(st.binary(max_size=60))
def test_garbage_in_a_stamp_is_the_peers_error(garbage: bytes) -> None:
    codec = Codec(50, stamps_are_dots=False, hops=True)
    whole = bytearray(codec.encode(Message(1 << 20, (0, 0, 0, 1, 0, 0, 1, 2, 0), b"")))
    body = bytes(whole[:2]) + garbage
    with suppress(PeerError):
        codec.decode(body + crc32(body).to_bytes(4, "little"))


ZONES = of_names({"left": ["a", "b", "g"], "right": ["g", "c"]})
A, B, G, C = range(4)


def test_a_chain_goes_through_the_gateway() -> None:
    tagger = SeparatorTagger(A, ZONES, RULES["1-11"])
    gateway, there = GatewayOrderer(G, ZONES, RULES["1-11"]), SeparatorOrderer(C, ZONES, RULES["1-11"])
    message = tagger.tag(b"m", (B, C))
    [forward] = gateway.receive(message, A, 0)
    assert forward.peers == (C,)  # type: ignore[union-attr]
    hop = forward.message  # type: ignore[union-attr]
    assert there.receive(hop, G, 0) == [hop]
    assert (hop.dot, hop.payload, hop.dest) == (message.dot, b"m", (B, C))


def message_with(head: tuple[int, ...], *noted: int, dest: tuple[int, ...] = (B,)) -> Message:
    return Message(1 << 20 | A, (*head, *noted), b"", dest)


@pytest.mark.parametrize(
    "message",
    [
        message_with((0, 0, 0)),
        message_with((0, 0, 0, 1), 1),
        message_with((7, 0, 0, 1)),
        message_with((0, 0, 9, 1)),
        message_with((0, 3, 0, 1)),
        message_with((0, 1, 0, 1)),
        message_with((0, 0, 2, 1)),
        message_with((0, 0, 0, 1), 5, 0, 1, 1, 0),
        message_with((0, 0, 0, 1), 0, 0, 1, 8, 0),
        message_with((0, 0, 0, 1), 0, 1, 4, 1, 0),
        message_with((0, 0, 0, 1), dest=(C,)),
        message_with((0, 0, 0, 1), dest=(G,)),
        message_with((0, 0, 0, 1), dest=(17,)),
    ],
    ids=[
        "short", "half a row", "zone", "place", "separator", "not its separator", "gateway without one",
        "zone of a row", "beyond the zone", "own hop that was never sent", "not this way", "to a gateway",
        "to nowhere",
    ],
)  # fmt: skip
def test_what_no_correct_peer_sends_is_refused(message: Message) -> None:
    with pytest.raises(PeerError):
        SeparatorOrderer(B, ZONES, RULES["1-11"]).check(message)


def test_a_hop_comes_from_its_sender() -> None:
    message = SeparatorTagger(A, ZONES, RULES["1-11"]).tag(b"", (B,))
    with pytest.raises(PeerError):
        SeparatorOrderer(B, ZONES, RULES["1-11"]).receive(message, G, 0)


def test_destinations_that_cannot_be_reached_are_refused() -> None:
    tagger = SeparatorTagger(A, ZONES, RULES["1-11"])
    with pytest.raises(UsageError, match="cannot be reached"):
        tagger.tag(b"", (9,))
    with pytest.raises(UsageError, match="is a gateway"):
        tagger.tag(b"", (G,))
    with pytest.raises(UsageError, match="has no client"):
        SeparatorTagger(G, ZONES, RULES["1-11"]).tag(b"", (A,))


def test_the_layout_of_a_context() -> None:
    tagger = SeparatorTagger(A, ZONES, RULES["1-11"])
    tagger.tag(b"", (B,))
    message = tagger.tag(b"", (C,))
    assert len(message.context) == HEAD + EACH
    assert message.context == (0, 0, 0, 2, 0, 0, 1, 0b10, 0)

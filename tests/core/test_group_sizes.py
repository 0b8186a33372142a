"""Nothing that a member of a changing group sends is larger than a frame: the bounds, and the packets."""

from hypothesis import given
from hypothesis import strategies as st

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK, pack
from thence.core.group_codec import encode
from thence.core.group_sizes import (
    CARRIED_BYTES,
    CONTEXT_MAX,
    DOT_BYTES,
    FLOW_BYTES,
    FRAGMENT_BYTES,
    MESSAGE_BYTES,
    NAMED_BYTES,
    PLACE_BYTES,
    names_fit,
    payload_max,
)
from thence.core.group_words import MAX_NAME, MAX_SEQ
from thence.core.groups import Flow, Fragment, Notice, Receipt, Running
from thence.core.message import Message
from thence.members.operations import Operation
from thence.replica.group.ledger.payloads import Carried, carry_payload, flush_payload

CODEC = Codec(ORIGIN_MASK + 1, stamps_are_dots=True)
FRAMES = st.integers(1 << 16, 1 << 24)
COUNTERS = st.one_of(st.integers(1, 200), st.integers(1, MAX_SEQ - 1))
DOTS = st.dictionaries(st.integers(0, ORIGIN_MASK), COUNTERS, max_size=60)


def flow_of(message: Message) -> int:
    """Bytes of a packet with one message."""
    return len(encode(Flow((1 << 63) - 1, ORIGIN_MASK, (), (CODEC.encode(message),))))


@given(DOTS, COUNTERS, st.integers(0, ORIGIN_MASK), st.binary(max_size=300))
def test_a_message_is_no_longer_than_its_parts(
    dots: dict[int, int], seq: int, origin: int, payload: bytes
) -> None:
    dots.pop(origin, None)
    context = tuple(sorted([pack(index, counter) for index, counter in dots.items()]))
    bound = FLOW_BYTES + MESSAGE_BYTES + DOT_BYTES * len(context) + len(payload)
    assert flow_of(Message(pack(origin, seq), context, payload)) <= bound


def test_the_largest_payload_fits_with_the_widest_context() -> None:
    record = 1 << 16
    step = ORIGIN_MASK // (CONTEXT_MAX + 1)
    context = tuple(
        sorted([pack((1 + n) * step, 1 + n * (MAX_SEQ // CONTEXT_MAX)) for n in range(CONTEXT_MAX)])
    )
    payload = bytes(payload_max(record) + 1)  # with its kind
    assert len(CODEC.encode(Message(pack(ORIGIN_MASK, MAX_SEQ - 1), context, payload))) <= record


@given(FRAMES, st.text("ab", min_size=MAX_NAME, max_size=MAX_NAME), st.integers(1, MAX_SEQ - 1))
def test_the_largest_payload_can_be_carried(record: int, name: str, seq: int) -> None:
    carried = carry_payload(Carried([Operation(name, seq, b"")]))
    assert 1 + len(carried) + 5 <= CARRIED_BYTES  # the length of what is carried takes up to five bytes
    wide = tuple([(f"{place:0>{MAX_NAME}}", MAX_SEQ - 1 - place) for place in range(CONTEXT_MAX)])
    with_context = carry_payload(Carried([Operation(name, seq, b"", wide)]))
    assert 1 + len(with_context) + 5 <= CARRIED_BYTES + CONTEXT_MAX * PLACE_BYTES
    beside = MESSAGE_BYTES + CARRIED_BYTES + CONTEXT_MAX * (DOT_BYTES + PLACE_BYTES)
    assert payload_max(record) + beside == record


@given(st.integers(0, (1 << 63) - 1), st.integers(1, 1 << 26), st.binary(min_size=1, max_size=300))
def test_a_fragment_is_no_longer_than_its_parts(stream: int, total: int, data: bytes) -> None:
    assert len(encode(Fragment(stream, total - 1, total, data))) <= FRAGMENT_BYTES + len(data)


NAMES = st.lists(st.text("abcé", min_size=1, max_size=60), max_size=40, unique=True)


@given(NAMES, NAMES, st.integers(1, MAX_SEQ - 1))
def test_what_names_every_member_takes_no_more_than_the_names_do(
    members: list[str], past: list[str], count: int
) -> None:
    all_members = tuple(members)
    spans = tuple([(name, count, count + count // 2) for name in past])
    counts = dict.fromkeys(members, count)
    running = Running("p", "p~2", "p~3", count)
    receipt = Receipt("p~2", counts, all_members, all_members, running, "q", count, all_members, spans)
    bound = sum([len(name.encode()) + NAMED_BYTES for name in (*members, *past)])
    assert len(encode(receipt)) <= bound + 128
    assert len(encode(Notice("p", "q", all_members, count))) <= bound + 128
    assert len(flush_payload(members, spans)) <= bound + 128
    assert len(carry_payload(Carried([], spans, all_members, spans))) <= bound + 20 * len(past) + 128
    assert names_fit((*members, *past), 4 * bound) is True
    assert names_fit((*members, *past, "a"), 4 * bound) is False

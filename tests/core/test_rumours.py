"""Clocks by their low bits: the same message, or none."""

from hypothesis import given
from hypothesis import strategies as st

from thence.core.codec import Codec
from thence.core.codec_overlay import OPEN
from thence.core.dots import pack
from thence.core.message import Message
from thence.core.rumours import HALF, short, whole

entries = st.tuples(st.integers(0, 1 << 40), st.integers(-HALF, HALF - 1))


@given(st.lists(entries, min_size=1, max_size=40), st.binary(max_size=20))
def test_a_receiver_whose_clock_is_close_gets_the_message(
    pairs: list[tuple[int, int]], payload: bytes
) -> None:
    clock = [own for own, _ in pairs]
    stamp = tuple([max(0, own + ahead) for own, ahead in pairs])
    message = Message(pack(3, 7), stamp, payload)
    found = whole(short(message), clock)
    assert found is not None
    assert (found.dot, found.context, found.payload) == (message.dot, stamp, payload)


@given(st.lists(entries, min_size=1, max_size=40), st.integers(HALF, 1 << 20), st.data())
def test_one_that_is_too_far_behind_gets_nothing_wrong(
    pairs: list[tuple[int, int]], behind: int, data: st.DataObject
) -> None:
    clock = [own for own, _ in pairs]
    stamp = [max(0, own + ahead) for own, ahead in pairs]
    at = data.draw(st.integers(0, len(pairs) - 1))
    stamp[at] = clock[at] + behind
    found = whole(short(Message(pack(3, 7), tuple(stamp), b"")), clock)
    if clock[at] >= HALF:
        assert found is None
    assert found is None or found.context == tuple(stamp), "next to nothing there is one counter less"


def test_bytes_do_not_grow_with_the_age_of_a_group() -> None:
    codec, sizes = Codec(OPEN, stamps_are_dots=False, entries=100), []
    for age in (1, 1000, 1 << 30):
        stamp = tuple([age * (37 + entry % 7) for entry in range(100)])
        sizes.append(len(codec.encode(short(Message(pack(9999, 10_000), stamp, b"")))))
    assert set(sizes) == {116}

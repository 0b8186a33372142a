"""Requests in the Redis protocol, whole, in pieces, and broken."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.store.glob import matches
from thence.store.reply import Fail, Members, Pairs, Verbatim, encode
from thence.store.resp import BadRequest, Requests, split


def request(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def taken(requests: Requests) -> list[list[bytes]]:
    found = []
    while (one := requests.next()) is not None:
        found.append(one)
    return found


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=5), st.data())
def test_requests_come_whole_however_they_are_cut(meant: list[list[bytes]], data: st.DataObject) -> None:
    whole = b"".join(request(*words) for words in meant)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    requests, found = Requests(), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        requests.feed(whole[start:end])
        found += taken(requests)
    assert found == meant


@pytest.mark.parametrize("size", [1023, 1024, 1025, 5000])
@pytest.mark.parametrize("step", [1, 700, 4097])
def test_long_words_among_short_ones(size: int, step: int) -> None:
    meant = [[b"SET", b"k", b"\r\n" * size], [b"GET", b"k"], [b"SET", b"k", b"x" * size], [b"A"] * 70]
    whole = b"".join(request(*words) for words in meant)
    requests, found = Requests(), []
    for start in range(0, len(whole), step):
        requests.feed(whole[start : start + step])
        found += taken(requests)
    assert found == meant
    assert requests.waiting == 0


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(data: bytes) -> None:
    requests = Requests()
    requests.feed(data)
    with suppress(BadRequest):
        taken(requests)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"*3000000\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$600000000\r\n", "invalid bulk length"),
        (b"*1\r\nx\r\n", "expected '$', got 'x'"),
        (b"x" * 70_000, "too big inline request"),
        (b'GET "a\r\n', "unbalanced quotes in request"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
    ],
)
def test_what_no_client_sends_is_refused_in_the_words_of_redis(data: bytes, error: str) -> None:
    requests = Requests()
    requests.feed(data)
    with pytest.raises(BadRequest, match=error.replace("$", "\\$")):
        taken(requests)


def test_a_stranger_may_not_send_much() -> None:
    for data, error in ((b"*11\r\n", "multibulk"), (b"*2\r\n$20000\r\n", "bulk")):
        requests = Requests()
        requests.known = False
        requests.feed(data)
        with pytest.raises(BadRequest, match=f"unauthenticated {error} length"):
            taken(requests)


def test_a_length_costs_nothing_before_its_bytes_come() -> None:
    requests = Requests()
    requests.feed(b"*2\r\n$3\r\nSET\r\n$500000000\r\n")
    assert requests.next() is None
    assert requests.waiting < 100


def test_inline_commands() -> None:
    requests = Requests()
    requests.feed(b"PING\r\nset k \"a\\x41\\n\" 'it\\'s'\n\r\n")
    assert taken(requests) == [[b"PING"], [b"set", b"k", b"aA\n", b"it's"], []]
    assert split(b'a"b') is None


@pytest.mark.parametrize(
    ("pattern", "text", "does"),
    [
        (b"*", b"", True), (b"h?llo", b"hello", True), (b"h[^e]llo", b"hello", False),
        (b"h[a-c]", b"hb", True),
        (b"a\\*", b"a*", True), (b"a\\*", b"ab", False), (b"[c-a]", b"b", True),
        (b"*a*a*a*a*a*b", b"a" * 500, False),
        (b"a[", b"a[", False), (b"**a", b"bba", True),
    ],
)  # fmt: skip
def test_patterns(pattern: bytes, text: bytes, does: bool) -> None:
    assert matches(pattern, text) is does


@pytest.mark.parametrize(
    ("reply", "two", "three"),
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (1e20, b"$5\r\n1e+20\r\n", b",1e+20\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        ({b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (Members([b"a"]), b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        (Pairs([[b"a", 1.0]]), b"*2\r\n$1\r\na\r\n$1\r\n1\r\n", b"*1\r\n*2\r\n$1\r\na\r\n,1\r\n"),
        (Verbatim(b"x"), b"$1\r\nx\r\n", b"=5\r\ntxt:x\r\n"),
        (Fail("ERR a\r\nb"), b"-ERR a  b\r\n", b"-ERR a  b\r\n"),
        ("OK", b"+OK\r\n", b"+OK\r\n"),
    ],
)
def test_replies_in_both_versions(reply: object, two: bytes, three: bytes) -> None:
    for proto, meant in ((2, two), (3, three)):
        out: list[bytes] = []
        encode(reply, proto, out)
        assert b"".join(out) == meant

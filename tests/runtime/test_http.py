"""Unit, format and fault: the HTTP server, met by clients that are correct, odd and hostile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from thence.core.errors import InvariantError, UsageError
from thence.runtime.address import Address
from thence.runtime.http import ClientLimits, HttpServer, Refused, Request, Response, parse_head, text

Result = TypeVar("Result")

SMALL = ClientLimits(
    head_bytes=512, body_bytes=100, connections=3, reserved=2, request_s=5, idle_s=5, linger_s=5
)
"""Small sizes, long waits: no test of sizes may end by a timeout."""


class World:
    """A server with some routes, and raw connections to it."""

    def __init__(self, limits: ClientLimits, **options: Any) -> None:
        self.failures: list[Exception] = []
        self.release = asyncio.Event()
        self.waiting = asyncio.Event()
        routes = {
            ("GET", "/hello"): self.hello,
            ("POST", "/echo"): self.echo,
            ("GET", "/misuse"): self.misuse,
            ("GET", "/bug"): self.bug,
            ("GET", "/broken"): self.broken,
            ("GET", "/slow"): self.slow,
        }
        self.server = HttpServer(routes, lambda _, error: self.failures.append(error), limits, **options)
        self.port = 0

    async def hello(self, request: Request) -> Response:
        return text(200, f"hello {request.query}")

    async def echo(self, request: Request) -> Response:
        return Response(200, request.body)

    async def misuse(self, request: Request) -> Response:
        raise UsageError("not like this")

    async def bug(self, request: Request) -> Response:
        raise ZeroDivisionError("secret details")

    async def broken(self, request: Request) -> Response:
        raise InvariantError("delivered twice")

    async def slow(self, request: Request) -> Response:
        self.waiting.set()
        await self.release.wait()
        return text(200, "at last")

    async def exchange(self, *sent: bytes, end: bool = True) -> bytes:
        """Send these bytes, with the server having its turn in between, and read until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for data in sent:
                writer.write(data)
                await writer.drain()
            if end:
                writer.write_eof()
            return await reader.read()
        except ConnectionError:
            return b""  # closed while we still sent
        finally:
            writer.close()


def live(story: Callable[[World], Awaitable[Result]], limits: ClientLimits = SMALL, **options: Any) -> Result:
    async def run() -> Result:
        unheard: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        world = World(limits, **options)
        world.port = (await world.server.start(Address("127.0.0.1", 0))).port
        try:
            async with asyncio.timeout(20):
                result = await story(world)
        finally:
            await world.server.close()
        assert unheard == [], "something was raised past its connection"
        return result

    with asyncio.Runner() as runner:
        runner.run(run())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # what nodes run on
        return runner.run(run())


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def test_a_request_is_answered_and_the_connection_kept_until_the_client_closes_it() -> None:
    answer = live(
        lambda world: world.exchange(get("/hello?world") + post("/echo", b"body"), get("/hello?again"))
    )
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert answer.endswith(b"\r\n\r\nhello again\n")
    assert b"\r\n\r\nbodyHTTP/1.1" in answer
    assert b"Connection: keep-alive" in answer


@pytest.mark.parametrize("last", [get("/hello", "Connection: close"), b"GET /hello HTTP/1.0\r\n\r\n"])
def test_a_client_that_wants_no_more_is_closed(last: bytes) -> None:
    answer = live(lambda world: world.exchange(last, end=False))
    assert b"200 OK" in answer
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET /hello HTTP/2\r\nHost: x\r\n\r\n", 400),
        (b"GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://x/hello HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /h\xc3\xa9llo HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\nHost: x\n\r\n\r\n", 400),
        (get("/hello", "A: b\nContent-Length: 3"), 400),
        (get("/hello", "A: b\x00"), 400),
        (get("/hello", " folded: line"), 400),
        (get("/hello", "Name : value"), 400),
        (get("/hello", "no colon"), 400),
        (get("/hello", "Host: y"), 400),
        (get("/hello", "Content-Length: 3"), 400),
        (get("/hello", "Expect: miracles"), 417),
        (get("/hello", "A: " + "b" * 600), 431),
        (b"x" * 2000, 431),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\n\r\n", 411),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (post("/echo", b"", "Content-Length: 5"), 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\nabc", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        (post("/echo", b"x" * 101), 413),
        (get("/nowhere"), 404),
        (get("/echo"), 405),
        (b"DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    ],
)
def test_whatever_is_strange_is_answered_with_4xx_and_closed(request_bytes: bytes, status: int) -> None:
    """What follows on the connection is not taken for a request: where it begins is unknown."""
    answer = live(lambda world: world.exchange(request_bytes + get("/hello")))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"Content-Length:") == 1
    assert b"Connection: close" in answer


def test_405_names_what_would_do() -> None:
    assert b"\r\nAllow: POST\r\n" in live(lambda world: world.exchange(get("/echo")))


def test_a_refusal_reaches_a_client_that_is_still_sending_its_body() -> None:
    """Closing at once would reset the connection, and the client would learn nothing."""
    size = 4 * 1024 * 1024
    request = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    answer = live(lambda world: world.exchange(request, *[b"x" * 65536] * (size // 65536)))
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_waits_is_told_to_go_on() -> None:
    async def story(world: World) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        writer.write(head)
        told = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"body")
        writer.write_eof()
        rest = await reader.read()
        writer.close()
        return told + rest

    answer = live(story)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"body")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [("/misuse", 400, b"not like this"), ("/bug", 500, b"the log tells why"), ("/broken", 500, b"twice")],
)
def test_a_handler_that_fails_is_an_answer_and_told_to_the_node(path: str, status: int, words: bytes) -> None:
    async def story(world: World) -> tuple[bytes, int]:
        return await world.exchange(get(path) + get("/hello")), len(world.failures)

    answer, failures = live(story)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert words in answer
    assert b"secret" not in answer
    assert answer.count(b"HTTP/1.1 200 OK") == 1, "the connection is as good as before"
    assert failures == (0 if status == 400 else 1)


def test_a_request_that_never_ends_is_given_up() -> None:
    hurried = ClientLimits(request_s=0.01)
    answer = live(lambda world: world.exchange(b"GET /hello HT", end=False), hurried)
    assert answer.startswith(b"HTTP/1.1 408 ")
    answer = live(lambda world: world.exchange(post("/echo", b"12345")[:-1], end=False), hurried)
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_requests_is_closed_without_a_word() -> None:
    assert live(lambda world: world.exchange(end=False), ClientLimits(idle_s=0.01)) == b""


def test_one_connection_too_many_is_sent_away_and_others_stay() -> None:
    async def story(world: World) -> tuple[bytes, bytes]:
        kept = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(get("/hello"))
            await reader.readuntil(b"hello \n")
            kept.append((reader, writer))
        refused = await world.exchange(end=False)
        reader, writer = kept[0]
        writer.write(get("/hello", "Connection: close"))
        answer = await reader.read()
        for _, writer in kept:
            writer.close()
        return refused, answer

    refused, answer = live(story)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"200 OK" in answer


def test_what_is_reserved_is_answered_however_many_connections_there_are() -> None:
    """Idle ones, and more than are reserved: the oldest of those gives way."""

    async def story(world: World) -> tuple[bytes, bytes, bytes]:
        idle = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(20)]
        answer = await world.exchange(get("/hello?urgent"), end=False)
        other = await world.exchange(post("/echo", b"x"), end=False)
        first = await idle[SMALL.connections][0].read()
        for _, writer in idle:
            writer.close()
        return answer, other, first

    answer, other, first = live(story, reserved=frozenset({"/hello"}))
    assert answer.endswith(b"hello urgent\n")
    assert b"Connection: close" in answer
    assert other.startswith(b"HTTP/1.1 503 ")
    assert first == b"", "it gave way"


def test_nothing_is_read_of_a_body_that_the_gate_refuses() -> None:
    async def story(world: World) -> bytes:
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n"
        return await world.exchange(head)

    def shut(request: Request) -> None:
        raise Refused(403, f"not {request.path}")

    answer = live(story, gate=shut)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"not /echo\n")


def test_closing_lets_an_answer_that_is_owed_leave_and_drops_the_idle() -> None:
    async def story(world: World) -> tuple[bytes, bytes]:
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", world.port)
        asked = asyncio.ensure_future(world.exchange(get("/slow"), end=False))
        await world.waiting.wait()
        closing = asyncio.ensure_future(world.server.close(grace_s=10))
        idle = await idle_reader.read()
        idle_writer.close()
        assert not closing.done()
        world.release.set()
        await closing
        return await asked, idle

    answer, idle = live(story)
    assert answer.endswith(b"at last\n")
    assert b"Connection: close" in answer
    assert idle == b""


def test_an_address_in_use_is_the_callers_trouble() -> None:
    async def story(world: World) -> None:
        with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1"):
            await World(SMALL).server.start(Address("127.0.0.1", world.port))

    live(story)


WORDS = st.sampled_from([
    b"GET ", b"POST ", b"/hello", b"/echo", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r", b"Host: x",
    b"\r\nHost:", b"Content-Length: ", b"3", b"-1", b"0x3", b"Transfer-Encoding: chunked", b"\x00", b"\xff",
    b"Connection: close", b"Expect: 100-continue", b":", b" ", b"\t", b",",
])  # fmt: skip
VALID = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3"


@given(
    st.binary(max_size=300) | st.lists(WORDS).map(b"".join) | st.lists(WORDS).map(b"".join).map(VALID.__add__)
)
def test_a_head_is_understood_or_refused_and_nothing_else(head: bytes) -> None:
    try:
        parsed = parse_head(head)
    except Refused as refusal:
        status = refusal.response.status
    else:
        status = 200
        assert parsed.request.path.startswith("/")
        assert parsed.length == 0 or parsed.request.method == "POST"
        assert not set("".join(parsed.request.headers.values())) & set("\r\n\0")
    assert status == 200 or 400 <= status < 500


PIECES = st.sampled_from(
    [
        get("/hello"),
        post("/echo", b"abc"),
        get("/bug"),
        post("/echo", b"x" * 200),
        b"\r\n\r\n",
        b"\x00",
        b"GET /",
        b"A: b\r\n",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(PIECES | st.binary(max_size=700), max_size=8), min_size=1, max_size=5))
def test_no_bytes_raise_past_their_connection_or_stop_the_server(conversations: list[list[bytes]]) -> None:
    """Each conversation is answered with whole answers, memory stays bounded (nothing is left behind), and
    afterwards the server answers as before."""

    async def story(world: World) -> None:
        for pieces in conversations:
            answer = await world.exchange(*pieces)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 "), answer
        assert all(isinstance(error, ZeroDivisionError) for error in world.failures)
        assert (await world.exchange(get("/hello?still"))).endswith(b"hello still\n")

    live(story)

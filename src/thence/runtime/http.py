"""As much of HTTP/1.1 as scrapers, browsers and our own command line need, and nothing that could surprise.

A request is a head of at most a few KiB and, for POST, a body whose length stands in the head. Whatever is
ambiguous (two lengths, a transfer coding, folded lines, bare line feeds) is not interpreted but answered with
4xx, and the connection is closed: there is no second opinion about where the next request begins.

Invariants: a connection costs bounded memory (`ClientLimits`) and bounded time; nothing that a client sends
raises past its connection; a handler's failure is an answer of 500 and one call of `failed`, never a
traceback. No body is read of a request that the gate refuses. When all connections are in use, some more are
for what must be answered even then.

`parse_head` is a function of bytes; the rest is reading, waiting and writing.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from thence.core.errors import StorageError, ThenceError, UsageError
from thence.runtime.address import Address
from thence.runtime.descriptors import share
from thence.runtime.door import Door

_TARGET: Final = re.compile(r"/[!-~]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_LENGTH: Final = re.compile(r"[0-9]{1,12}")

END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may cost."""

    head_bytes: int = 8 * 1024
    """Browsers send one or two KiB."""
    body_bytes: int = 16 * 1024 * 1024
    """As much as a frame between nodes may have: a larger payload could not travel anyway."""
    connections: int = 64
    """A scraper, a watching terminal and some scripts; every one may hold a head and a body."""
    reserved: int = 8
    """Beyond these, one request each, for the paths that are reserved. If they are in use as well, the oldest
    gives way: an answer takes milliseconds."""
    idle_s: float = 30.0
    """How long to wait for the next request on a connection that is kept."""
    request_s: float = 10.0
    """For a request to arrive, and for its answer to leave: a client that dawdles is not worth a slot."""
    linger_s: float = 1.0
    """After a refusal, for the client to take notice before what it still sends meets a closed door."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Request], Awaitable[Response]]
Routes = Mapping[tuple[str, str], Handler]
"""(method, path) -> the function that answers."""
Gate = Callable[[Request], None]
"""Asked about every request before its body is read; raises `Refused`."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of ours
    """This request gets this answer, and the connection is closed."""

    def __init__(self, status: int, why: str, *headers: tuple[str, str]) -> None:
        super().__init__(why)
        self.response: Final = text(status, why, *headers)


def text(status: int, words: str, *headers: tuple[str, str]) -> Response:
    return Response(status, f"{words}\n".encode(errors="replace"), headers=headers)


@dataclass(frozen=True, slots=True)
class Head:
    request: Request
    length: int
    """Of the body that follows."""
    keep: bool
    """Whether the client means to send another request."""
    waits: bool
    """Whether it sends the body only when told to go on (curl does, for large ones)."""


def parse_head(head: bytes) -> Head:
    """Everything up to the empty line, without it. Raises `Refused`."""
    # Latin-1 gives every byte a character, so decoding cannot fail; the patterns decide what is let in.
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise Refused(400, "this is no request line")
    method, target, version = parts
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise Refused(400, "only HTTP/1.1 and 1.0 are spoken here")
    headers = _headers(lines)
    if version == "HTTP/1.1" and "host" not in headers:
        raise Refused(400, "a request needs a Host")
    if "transfer-encoding" in headers:
        raise Refused(411, "bodies need a Content-Length; transfer codings are not spoken here")
    length = headers.get("content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise Refused(400, "this Content-Length is no number")
    if method == "POST" and length is None:
        raise Refused(411, "a POST needs a Content-Length")
    if method != "POST" and int(length or 0):
        raise Refused(400, "only a POST has a body")
    expects = headers.get("expect", "").lower()
    if expects not in ("", "100-continue"):
        raise Refused(417, "nothing can be expected here but 100-continue")
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    keep = version == "HTTP/1.1" and "close" not in options
    path, _, query = target.partition("?")
    return Head(Request(method, path, query, headers), int(length or 0), keep, bool(expects))


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Refused(400, "this is no header")
        name = name.lower()
        if name in headers:
            # Joining them with commas is right for some names and dangerous for others.
            raise Refused(400, "the same header twice")
        headers[name] = value.strip(" \t")
    return headers


def encode(response: Response, keep: bool) -> bytes:
    phrase = HTTPStatus(response.status).phrase
    lines = [
        f"HTTP/1.1 {response.status} {phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    return "\r\n".join(lines).encode("latin-1") + END_OF_HEAD + response.body


TOO_MANY: Final = "too many connections"
FULL: Final = text(503, TOO_MANY)


class HttpServer:
    """Answers requests until it is closed."""

    __slots__ = (
        "_busy", "_closing", "_door", "_failed", "_gate", "_limits", "_reserved", "_routes", "_tasks",
        "_urgent",
    )  # fmt: skip

    def __init__(
        self,
        routes: Routes,
        failed: Callable[[Request, Exception], None],
        limits: ClientLimits | None = None,
        *,
        gate: Gate = lambda _: None,
        reserved: frozenset[str] = frozenset(),
        paused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`failed` is told when a handler raised what it should not: a bug, or an invariant that broke.
        `reserved`: paths that are answered though all connections are in use. `paused`: see `Door`."""
        self._routes: Final = routes
        self._failed: Final = failed
        self._limits: Final = limits or ClientLimits()
        self._gate: Final = gate
        self._reserved: Final = reserved
        self._door: Final = Door(self._arrived, paused)
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._urgent: dict[asyncio.Task[None], None] = {}
        """Those of them that are beyond the usual number, oldest first."""
        self._busy: set[asyncio.Task[None]] = set()
        """Those of them that owe an answer."""

    async def start(self, address: Address) -> Address:
        """Begin to listen; returns where, with the port that the system chose for 0."""
        return await self._door.open(address)

    async def close(self, grace_s: float = 2.0) -> None:
        """Stop listening, give answers that are owed a moment to leave, drop the rest."""
        self._closing = True
        await self._door.close()
        for task in self._tasks - self._busy:
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy, timeout=grace_s)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _arrived(self, _: str) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(self._limits.head_bytes)
        return asyncio.StreamReaderProtocol(reader, self._accept)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        urgent = len(self._tasks) - len(self._urgent) >= share(self._limits.connections)
        if urgent and not self._reserved:
            writer.write(encode(FULL, keep=False))
            writer.close()
            return
        if urgent and len(self._urgent) >= self._limits.reserved:
            next(iter(self._urgent)).cancel()
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        if urgent:
            self._urgent[task] = None
        task.add_done_callback(lambda _: self._gone(task, writer))

    def _gone(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        self._urgent.pop(task, None)
        writer.close()  # of one that gave way before it had begun

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None
        # `drain` then waits until all of it has left, and what is in the buffer at the end is not wanted.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            while await self._one(reader, writer, me):
                self._busy.discard(me)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # the client has gone, sleeps, or we close: no client is there to tell
        finally:
            self._busy.discard(me)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            else:
                writer.close()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, me: asyncio.Task[None]
    ) -> bool:
        """One request and its answer; whether another may follow."""
        try:
            request, keep = await self._read(reader, writer, me)
            response = await self._answer(request)
        except Refused as refusal:
            await self._write(writer, encode(refusal.response, keep=False))
            await self._linger(reader, writer)
            return False
        keep = keep and not self._closing and me not in self._urgent
        await self._write(writer, encode(response, keep))
        return keep

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, me: asyncio.Task[None]
    ) -> tuple[Request, bool]:
        limits = self._limits
        try:
            async with asyncio.timeout(limits.idle_s):
                first = await reader.readexactly(1)
            self._busy.add(me)
            async with asyncio.timeout(limits.request_s):
                try:
                    rest = await reader.readuntil(END_OF_HEAD)
                except asyncio.LimitOverrunError:
                    raise Refused(431, f"a head may have {limits.head_bytes} bytes") from None
                head = parse_head((first + rest)[: -len(END_OF_HEAD)])
                if me in self._urgent and head.request.path not in self._reserved:
                    raise Refused(503, TOO_MANY)
                self._gate(head.request)
                if head.length > limits.body_bytes:
                    raise Refused(413, f"a body may have {limits.body_bytes} bytes")
                if head.waits and head.length:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(head.length)
        except TimeoutError:
            if me in self._busy:
                raise Refused(408, "this request took too long to arrive") from None
            raise
        asked = head.request
        return Request(asked.method, asked.path, asked.query, asked.headers, body), head.keep

    async def _answer(self, request: Request) -> Response:
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            methods = sorted(method for method, path in self._routes if path == request.path)
            if methods:
                allow = ", ".join(methods)
                raise Refused(405, f"{request.path} takes {allow}", ("Allow", allow))
            raise Refused(404, f"there is no {request.path}")
        try:
            return await handler(request)
        except Refused:
            raise
        except UsageError as error:
            return text(400, str(error))
        except StorageError as error:
            return text(503, str(error))
        except Exception as error:
            self._failed(request, error)
            return text(
                500, str(error) if isinstance(error, ThenceError) else "this failed; the log tells why"
            )

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        async with asyncio.timeout(self._limits.request_s):
            await writer.drain()

    async def _linger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Closing while the client still sends would reset the connection, and our answer would be lost."""
        if writer.can_write_eof():
            writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.linger_s):
                while await reader.read(64 * 1024):
                    pass

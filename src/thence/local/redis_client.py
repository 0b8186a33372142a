"""A client of a store, or of Redis, for commands of our own: blocking, RESP2, several requests at a time."""

from collections.abc import Sequence
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from types import TracebackType
from typing import Any, Final, Self

from thence.core.errors import ThenceError, UsageError
from thence.runtime.address import Address
from thence.store.reply import Fail, encode

TIMEOUT_S: Final = 10.0


class RedisClient:
    """A connection. An error reply of a command is raised as `Fail`; what the network does, as
    `ThenceError`."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S) -> None:
        self._where: Final = str(address)
        try:
            self._socket: Final = create_connection(address, timeout_s)
        except OSError as error:
            raise UsageError(f"no store answers at {self._where}: {error.strerror or error}") from error
        self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._replies: Final = self._socket.makefile("rb")
        self._owed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def __call__(self, *words: object) -> Any:
        """One command, and its reply."""
        out: list[bytes] = []
        encode([word if isinstance(word, bytes) else str(word).encode() for word in words], 2, out)
        [reply] = self.send(b"".join(out), 1)
        if isinstance(reply, Fail):
            raise reply
        return reply

    def send(self, requests: bytes, count: int) -> Sequence[Any]:
        """So many requests, and their replies, an error as `Fail`."""
        self.begin(requests, count)
        return self.end()

    def begin(self, requests: bytes, count: int) -> None:
        """So many requests, whose replies `end` will wait for."""
        try:
            self._socket.sendall(requests)
        except OSError as error:
            raise self._lost(error) from error
        self._owed = count

    def end(self) -> Sequence[Any]:
        owed, self._owed = self._owed, 0
        try:
            return [self._reply() for _ in range(owed)]
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> ThenceError:
        return ThenceError(f"the store at {self._where}: {error.strerror or error}")

    def _reply(self) -> Any:
        line = self._replies.readline()
        sign, rest = line[:1], line[1:-2]
        if sign == b"$":
            return None if int(rest) < 0 else self._read(int(rest))
        if sign == b"*":
            return None if int(rest) < 0 else [self._reply() for _ in range(int(rest))]
        if sign == b":":
            return int(rest)
        if sign == b"+":
            return rest.decode()
        if sign == b"-":
            return Fail(rest.decode(errors="replace"))
        raise ThenceError(f"the store at {self._where} ended the connection")

    def _read(self, size: int) -> bytes:
        data = self._replies.read(size + 2)
        if len(data) < size + 2:
            raise ThenceError(f"the store at {self._where} ended the connection")
        return data[:-2]

"""Fifty clients of a store, or of Redis, each with so many commands under way: for `bench store`.

redis-benchmark where it is installed; else clients of our own, in this process.
"""

import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from thence.core.errors import ThenceError

CLIENTS: Final = 50
TIMEOUT_S: Final = 120.0
Words = Callable[[int], list[bytes]]
RATE: Final = re.compile(r"([\d.]+) requests per second")


def request(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def drive(port: int, name: str, words: Words, pipeline: int, count: int) -> float:
    """So many commands; how many were answered in a second."""
    program = shutil.which("redis-benchmark")
    if program is None:
        return _own(port, words, pipeline, count)
    asked = [program, "-p", str(port), "-c", str(CLIENTS), "-P", str(pipeline), "-n", str(count), "-d", "64",
             "-r", "1000", "-q", "-t", name]  # fmt: skip
    done = subprocess.run(asked, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    found = RATE.findall(done.stdout)
    if not found:
        raise ThenceError(f"redis-benchmark: {(done.stderr or done.stdout).strip()[-200:]}")
    return float(found[-1])


def _own(port: int, words: Words, pipeline: int, count: int) -> float:
    """Each client sends its next commands when all before them are answered."""
    lines = pipeline * (2 if words(0)[0] == b"GET" else 1)
    turns = max(1, count // (CLIENTS * pipeline))
    batches = [
        b"".join([request(words(at * pipeline + each)) for each in range(pipeline)]) for at in range(64)
    ]
    poll, clients = select.epoll(), dict[int, _Client]()
    begun = time.monotonic()
    for at in range(CLIENTS):
        client = _Client(socket.create_connection(("127.0.0.1", port), TIMEOUT_S), lines, turns)
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.socket.sendall(batches[at % len(batches)])
        poll.register(client.socket, select.EPOLLIN)
        clients[client.socket.fileno()] = client
    left = CLIENTS
    while left:
        for number, _ in poll.poll(TIMEOUT_S):
            client = clients[number]
            data = client.socket.recv(1 << 16)
            if not data:
                raise ThenceError("the store has ended a connection")
            client.lines -= data.count(b"\n")
            if client.lines > 0:
                continue
            client.lines, client.turns = lines, client.turns - 1
            if client.turns:
                client.socket.sendall(batches[(number + client.turns) % len(batches)])
            else:
                left -= 1
                poll.unregister(number)
                client.socket.close()
    return turns * CLIENTS * pipeline / (time.monotonic() - begun)


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    lines: int
    """Of replies that are still to come."""
    turns: int

"""As many clients as the limits of a process allow, ten thousand at most, at a node of its own."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from support.processes import eventually

from thence.lab.tour.live import FLAGS, running
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST, free_ports
from thence.local.redis_client import RedisClient
from thence.runtime.address import Address
from thence.runtime.descriptors import RESERVE, limit, raise_limit

KILOBYTES_EACH = 24
"""Of a connection that has said something and waits: both of its buffers, and what Python keeps."""


@contextmanager
def node(folder: Path) -> Iterator[Address]:
    layout = open_layout(folder, 1, changing=True)
    base = store.resp_base(layout, free_ports(1))
    cluster = Cluster(layout, flags=FLAGS, own=store.flags(layout, base))
    with running(cluster):
        cluster.start()
        cluster.ready()
        yield Address(HOST, base)


def memory(ask: RedisClient) -> int:
    told = ask("INFO", "memory").decode()
    return int(told.partition("used_memory:")[2].partition("\r")[0])


def settled(ask: RedisClient, clients: int) -> bool:
    return f"connected_clients:{clients}\r" in ask("INFO", "clients").decode()


def test_all_are_served_and_one_too_many_is_told_so(tmp_path: Path) -> None:
    raise_limit()
    most = min(10_000, (limit() - RESERVE) // 2)
    with node(tmp_path / "one") as address, RedisClient(address) as ask, ExitStack() as open_ones:
        ask("SET", "k", "v")
        before = memory(ask)
        crowd = [open_ones.enter_context(socket.create_connection(address)) for _ in range(most - 1)]
        for each in crowd:
            each.sendall(b"INCR n\r\nGET k\r\n")
        eventually(partial(settled, ask, most))
        left = {each.fileno(): (each, b"") for each in crowd}
        poll = select.epoll()
        for each in crowd:
            poll.register(each, select.EPOLLIN)
        while left:
            for number, _ in poll.poll():
                each, had = left[number]
                had += each.recv(100)
                left[number] = each, had
                if had.endswith(b"$1\r\nv\r\n"):
                    assert had.startswith(b":")
                    poll.unregister(each)
                    del left[number]
        assert ask("GET", "n") == b"%d" % (most - 1)
        with socket.create_connection(address) as late:
            assert late.recv(100) == b"-ERR max number of clients reached\r\n"
        assert memory(ask) - before < KILOBYTES_EACH * 1024 * most
        open_ones.close()
        eventually(partial(settled, ask, 1))
        assert ask("GET", "k") == b"v"

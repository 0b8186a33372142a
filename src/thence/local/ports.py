"""Ports for the nodes of local clusters.

A second or more passes between the choice of a port and the moment in which a node listens on it, and
another cluster may choose the same port meanwhile. So the process that starts a cluster *claims* the
cluster's ports: it holds the same numbers for datagrams, which no node needs, until the cluster ends or the
process does.

Invariant: a cluster claims a port before it looks whether the port is free, and keeps the claim while its
nodes start; so of two clusters that start at the same time one is refused the port.
"""

import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

from thence.core.errors import UsageError

HOST: Final = "127.0.0.1"

PORTS: Final = range(7_000, 32_000)
"""Below those that systems hand out to outgoing connections, which would take one away during a restart."""

_held: Final[dict[Path, dict[int, socket.socket]]] = {}
"""By the folder of the cluster."""


def taken(ports: Iterable[int]) -> int | None:
    """One of these ports that is not free to listen on now."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                return port
    return None


def claim(folder: Path, ports: Iterable[int]) -> int | None:
    """Claim all of these ports for the cluster in `folder`, on which no program listens.

    Else none of them, and one that another cluster or program has. What the cluster has claimed before stays
    its own.
    """
    own = _held.setdefault(folder.absolute(), {})
    wanted = list(ports)
    new: dict[int, socket.socket] = {}
    other = next((port for port in wanted if port not in own and not _hold(port, new)), None)
    if other is None:
        other = taken(wanted)
    if other is None:
        own |= new
        return None
    for held in new.values():
        held.close()
    return other


def release(folder: Path) -> None:
    """The cluster in `folder` claims no ports any more."""
    for held in _held.pop(folder.absolute(), {}).values():
        held.close()


def free_ports(count: int, beside: Iterable[int] = (), folder: Path | None = None) -> int:
    """The start of a free range that has none of the ports `beside`, drawn by chance; claimed for the cluster
    in `folder`, if one is given."""
    random, others = Random(secrets.randbits(64)), set(beside)
    if folder is not None:
        others.update(_held.get(folder.absolute(), ()))
    for _ in range(1000):
        start = random.randrange(PORTS.start, PORTS.stop - count)
        ports = range(start, start + count)
        if others.isdisjoint(ports) and (taken(ports) if folder is None else claim(folder, ports)) is None:
            return start
    raise UsageError(f"found no {count} free ports in a row: give --base-port")


def _hold(port: int, held: dict[int, socket.socket]) -> bool:
    claimed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claimed.bind((HOST, port))
    except (OSError, OverflowError):
        claimed.close()
        return False
    held[port] = claimed
    return True

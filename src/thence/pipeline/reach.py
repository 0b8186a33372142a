"""Whether a server of Spark is there. Spark itself tries for a minute or more to reach one that is not.

A port that takes connections and says nothing (a firewall, a frozen process) is no server either, so that
each is asked for something small. Any answer will do, also a hang-up: what the server is, Spark finds out.
"""

import re
import socket
import threading
from collections.abc import Sequence
from typing import Final

from thence.core.errors import UsageError

REACH_S: Final = 10.0
CONNECT_PORT: Final = 15002
MASTERS: Final = r"local|local\[[^\]]+\]|local-cluster\[[^\]]+\]|spark://.+|yarn|k8s://.+"

_FILE: Final = b"/files/thence"
ASK_MASTER: Final = (13 + len(_FILE)).to_bytes(8) + b"\6" + len(_FILE).to_bytes(4) + _FILE
"""A frame of Spark's own transport that asks for a file; the answer is that there is none."""
ASK_CONNECT: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
"""What begins a connection of HTTP/2; the answer is the server's own settings."""


def check_master(master: str) -> None:
    """Raise if it cannot be one, or if none of a cluster's masters answers."""
    if re.fullmatch(MASTERS, master) is None:
        raise UsageError(f"{master} is no master of Spark; local[4] and spark://HOST:PORT are some")
    if master.startswith("spark://"):
        _reach(master, master.removeprefix("spark://").split(","), ASK_MASTER)


def check_connect(remote: str) -> None:
    address = re.fullmatch(r"sc://([^/;]+).*", remote)
    if address is None:
        raise UsageError(f"{remote} is no address of a Spark Connect server; sc://HOST:PORT is one")
    host, _, port = address.group(1).rpartition(":")
    _reach(remote, [f"{host}:{port}" if host else f"{port}:{CONNECT_PORT}"], ASK_CONNECT)


def _reach(told: str, addresses: Sequence[str], question: bytes) -> None:
    trouble = ""
    for address in addresses:
        answers: list[str] = []
        asker = threading.Thread(target=_ask, args=(address, question, answers), daemon=True)
        asker.start()
        asker.join(REACH_S / len(addresses))  # several addresses of a name, or a name server, take any time
        trouble = answers[0] if answers else "timed out"
        if not trouble:
            return
    raise UsageError(f"nothing answers at {told}: {trouble}")


def _ask(address: str, question: bytes, answers: list[str]) -> None:
    """Add what is wrong with it; if it answers, nothing."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), REACH_S) as link:
            link.sendall(question)
            link.recv(1)
    except ConnectionResetError:
        answers.append("")
    except (OSError, ValueError) as error:
        answers.append(str(error) or type(error).__name__)
    else:
        answers.append("")

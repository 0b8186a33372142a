"""The folder of a local cluster: its nodes, their addresses, its secret.

    DIR/cluster.toml    what must stay the same when the cluster is started again
    DIR/secret          made once, readable by its owner alone
    DIR/lock            held while a cluster runs from this folder
    DIR/up.txt          what `thence up --detach` said
    DIR/NAME/           data of a node
    DIR/NAME/log.txt    what the node printed

Invariant: a folder with anything else in it is left alone.
"""

import fcntl
import os
import secrets
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError
from thence.local import ports
from thence.local.ports import HOST
from thence.runtime.address import Address

NODES: Final = 3
"""Unless a number is given."""
MOST_NODES: Final = 256
"""Each is a process of tens of megabytes; more is a matter for the simulator."""

FILE: Final = "cluster.toml"
SECRET: Final = "secret"
LOCK: Final = "lock"
SAID: Final = "up.txt"
PRINTED: Final = "log.txt"
LEFTOVERS: Final = {SECRET, LOCK, SAID, f"{FILE}.new"}
"""What a making that was cut short leaves behind."""

VERSION: Final = 1
LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Layout:
    folder: Path
    cluster: str
    base_port: int
    http_base: int | None
    """None: every node takes a port that is free when it starts."""
    names: tuple[str, ...]
    changing: bool = False
    """Members come and go; else the group is fixed."""

    def address(self, name: str) -> Address:
        return Address(HOST, self.base_port + self.names.index(name))

    def http(self, name: str) -> Address:
        return Address(HOST, self.http_base + self.names.index(name) if self.http_base else 0)

    def data(self, name: str) -> Path:
        return self.folder / name

    def log(self, name: str) -> Path:
        return self.folder / name / PRINTED

    def sends(self, name: str) -> bool:
        """May it be given a load?"""
        del name
        return True

    def group_flags(self, name: str, contacts: Iterable[str]) -> list[str]:
        """What makes a node one of this cluster. `contacts`: nodes that it finds a changing group through."""
        if not self.changing:
            return ["--members", self.members]
        flags = ["--listen", str(self.address(name))]
        for other in contacts:
            flags += ["--join", str(self.address(other))]
        return flags

    @property
    def ports(self) -> list[int]:
        """On which its nodes listen, but for those that answer Redis clients."""
        count = len(self.names)
        return [*port_range(self.base_port, count), *port_range(self.http_base, count)]

    @property
    def secret(self) -> Path:
        return self.folder / SECRET

    @property
    def members(self) -> str:
        return ",".join(f"{name}={self.address(name)}" for name in self.names)


def names(count: int) -> tuple[str, ...]:
    """a … z, a1 … z1, a2 …"""
    return tuple(f"{chr(ord('a') + k % 26)}{k // 26 or ''}" for k in range(count))


def open_layout(
    folder: Path,
    nodes: int | None = None,
    base_port: int | None = None,
    http_base: int | None = None,
    changing: bool | None = None,
) -> Layout:
    """The cluster in `folder`, made if there is none. What is given must be what it was made with."""
    try:
        if (folder / FILE).exists():
            layout = read_layout(folder)
            _compare(layout, nodes, base_port, changing)
            if http_base is not None and http_base != layout.http_base:
                layout = _write(
                    folder, layout.cluster, len(layout.names), layout.base_port, http_base, layout.changing
                )
            return layout
        return _make(folder, NODES if nodes is None else nodes, base_port, http_base, bool(changing))
    except OSError as error:
        raise UsageError(f"cannot use {folder} for a cluster: {error.strerror}") from error


def resized(folder: Path, nodes: int) -> None:
    """The cluster in a folder has so many nodes from now on, the new ones after the others."""
    layout = read_layout(folder)
    _write(folder, layout.cluster, nodes, layout.base_port, layout.http_base, layout.changing)


class Hold:
    """The right to run a cluster from this folder; gone with the process that has it."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK).open("a+")
        if not self._lock():
            self._file.seek(0)
            holder = self._file.read().strip()
            self._file.close()
            raise UsageError(f"the cluster in {folder} is already run by process {holder}") from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def _lock(self) -> bool:
        """Whether this process has it. One that looks for the holder (`holder`) has it for a moment."""
        until = time.monotonic() + LOOK_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() > until:
                    return False
            time.sleep(0.01)

    def release(self) -> None:
        self._file.close()


def holder(folder: Path) -> int:
    """The process that runs a cluster from this folder; 0: none does."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0
    except FileNotFoundError:
        return 0
    except BlockingIOError:
        named = (folder / LOCK).read_text().strip()
        return int(named) if named.isdigit() else 0


def refuse_others(folder: Path) -> None:
    """A folder in which anything but a cluster is."""
    if not folder.exists() or (folder / FILE).exists():
        return
    if {path.name for path in folder.iterdir()} - LEFTOVERS:
        raise UsageError(f"{folder} holds something else: give --data a folder of its own")


def need_ports(layout: Layout, resp: int = 0, patience_s: float = 3.0) -> None:
    """Claim the cluster's ports, and those from `resp` on where Redis clients are answered, all of them free.

    Nodes of a cluster that was just killed may take a moment to be gone.
    """
    clients = range(resp, resp + len(layout.names)) if resp else range(0)
    until = time.monotonic() + patience_s
    while (port := ports.claim(layout.folder, [*layout.ports, *clients])) is not None:
        if time.monotonic() > until:
            way_out = ": --resp-base moves the ports for Redis clients" if port in clients else ""
            raise UsageError(
                f"port {port} of the cluster in {layout.folder} is in use by another program{way_out}"
            )
        time.sleep(0.05)


def _make(folder: Path, nodes: int, base_port: int | None, http_base: int | None, changing: bool) -> Layout:
    if not 1 <= nodes <= MOST_NODES:
        raise UsageError(f"--nodes must be between 1 and {MOST_NODES}, not {nodes}")
    refuse_others(folder)
    _check_ranges(base_port, http_base, nodes)
    for base, flag in ((base_port, "--base-port"), (http_base, "--http-base")):
        if base is not None and (port := ports.claim(folder, range(base, base + nodes))) is not None:
            ports.release(folder)
            # Told before anything is written: a folder keeps the ports that it was made with.
            raise UsageError(f"port {port} is in use by another program: give another {flag}")
    folder.mkdir(parents=True, exist_ok=True)
    secret = os.open(folder / SECRET, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(secret, "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")
    return _write(
        folder,
        f"up-{secrets.token_hex(4)}",
        nodes,
        ports.free_ports(nodes, port_range(http_base, nodes), folder) if base_port is None else base_port,
        http_base,
        changing,
    )


def _check_ranges(base_port: int | None, http_base: int | None, nodes: int) -> None:
    for base, flag in ((base_port, "--base-port"), (http_base, "--http-base")):
        if base is not None and not 1 <= base <= 65_536 - nodes:
            raise UsageError(f"{flag} must leave room for {nodes} ports below 65536, not {base}")
    if base_port is not None and _overlap(base_port, http_base, nodes):
        raise UsageError("--base-port and --http-base are too close: their ports overlap")


def _overlap(base_port: int, http_base: int | None, count: int) -> bool:
    return http_base is not None and abs(base_port - http_base) < count


def port_range(base: int | None, count: int) -> range:
    return range(base, base + count) if base else range(0)


def _write(
    folder: Path, cluster: str, nodes: int, base_port: int, http_base: int | None, changing: bool
) -> Layout:
    _check_ranges(base_port, http_base, nodes)
    lines = [
        "# A local cluster of `thence up`: what stays the same when it is started again.",
        f"version = {VERSION}",
        f'cluster = "{cluster}"',
        f"nodes = {nodes}",
        f"base_port = {base_port}",
        *([f"http_base = {http_base}"] if http_base else []),
        *(["changing = true"] if changing else []),
    ]
    (folder / f"{FILE}.new").write_text("\n".join(lines) + "\n")
    (folder / f"{FILE}.new").replace(folder / FILE)
    return Layout(folder, cluster, base_port, http_base, names(nodes), changing)


def read_layout(folder: Path) -> Layout:
    path = folder / FILE
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        cluster, nodes, base_port = read["cluster"], read["nodes"], read["base_port"]
        http_base, changing = read.get("http_base"), read.get("changing", False)
        sound = (
            isinstance(cluster, str)
            and isinstance(changing, bool)
            and all(
                isinstance(number, int) and 0 < number < 65_536
                for number in (nodes, base_port, http_base or 1)
            )
        )
        sound = sound and nodes <= min(MOST_NODES, 65_536 - base_port) and read["version"] == VERSION
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path} cannot be understood: {error}") from error
    if not sound:
        raise UsageError(f"{path} cannot be understood: was it changed by hand, or made by a later version?")
    return Layout(folder, cluster, base_port, http_base, names(nodes), changing)


def _compare(layout: Layout, nodes: int | None, base_port: int | None, changing: bool | None) -> None:
    there = len(layout.names)
    if nodes is not None and nodes != there:
        raise UsageError(f"the cluster in {layout.folder} has {there} nodes, not {nodes}")
    if changing is not None and changing != layout.changing:
        kind = "changing" if layout.changing else "fixed"
        raise UsageError(f"the group of the cluster in {layout.folder} is {kind}, and stays so")
    if base_port is not None and base_port != layout.base_port:
        raise UsageError(f"the cluster in {layout.folder} has base port {layout.base_port}, not {base_port}")

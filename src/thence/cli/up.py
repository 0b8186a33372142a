"""`thence up`: a local cluster in the foreground.

One process per node; this one starts them, shows how they are, starts again what dies, and stops them all
when it is told to. On a terminal a table stays at the bottom and what happens scrolls above it; in a pipe
there are lines for what happens and nothing else.

Invariant: when this process is gone, so are its nodes, however it went (`spawn.py`).
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from thence.cli.status import page
from thence.core.errors import ThenceError, UsageError
from thence.local import stores as store
from thence.local.cluster import NODE, Cluster, NodeProcess, Restarts
from thence.local.console import out, table_below
from thence.local.edge_file import TREE, open_edge_layout
from thence.local.layout import FILE, NODES, Layout, open_layout, port_range
from thence.local.node import as_arguments, with_words
from thence.local.probe import NodeProbe, has_left, look
from thence.local.zones_file import ZONES, open_zones_layout
from thence.replica.live import EDGE, SEPARATOR, is_streamed, must_go_together
from thence.runtime.load import MOST_SECONDS, Load
from thence.runtime.settings import NodeSettings
from thence.runtime.sources import compose

OURS: Final = ("name", "listen", "members", "join", "data", "cluster", "secret", "secret_file", "http")
"""Settings that differ between nodes or must be the same: not for the command line."""

LOOK_EVERY_S: Final = 1.0
TICK_S: Final = 0.05
GRACE_S: Final = 3.0
"""Beyond the drain time: for the last sync and the exit itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asks for."""

    data: Path
    nodes: int | None = None
    base_port: int | None = None
    http_base: int | None = None
    load: float | None = None
    load_bytes: int = 64
    restart: bool = True
    changing: bool | None = None
    store: bool = False
    """Nodes answer Redis clients, from `resp_base` on."""
    resp_base: int | None = None
    edge: bool = False
    """The nodes of a `tree`, or of the one in the folder."""
    tree: Path | None = None
    topology: Path | None = None
    """The file of zones; a cluster that has one keeps it."""
    load_group: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    """Settings of every node, by key."""
    words: tuple[str, ...] = ()
    program: tuple[str, ...] = NODE


def run(wish: Wish) -> int:
    load = None
    if wish.load is not None:
        group = wish.load_group
        load = Load(rate=wish.load, seconds=MOST_SECONDS, bytes=wish.load_bytes, group=group).checked()
    flags = {"profile": "local", **with_words(wish.flags, list(wish.words))}
    zoned = wish.topology is not None or (wish.data / ZONES).exists()
    settings = _checked(flags, wish.edge, zoned)
    stores = wish.store and not wish.edge and not zoned and not is_streamed(settings.order, settings.spread)
    if stores and wish.resp_base is not None and not (wish.data / FILE).exists():
        # Before anything is written: a folder keeps the ports that it was made with.
        count = wish.nodes or NODES
        others = [*port_range(wish.base_port, count), *port_range(wish.http_base, count)]
        store.claim_wanted(wish.data, wish.resp_base, count, others)
    layout = _layout(wish)
    restarts = Restarts() if wish.restart else None
    base, own = 0, dict[str, list[str]]()
    if stores:
        base = store.resp_base(layout, wish.resp_base)
        own = store.flags(layout, base)
    cluster = Cluster(
        layout, flags=as_arguments(flags), own=own, resp=base, program=wish.program, restarts=restarts
    )
    with stopping() as asked:
        try:
            return Up(cluster, load, settings.drain_us / 1e6 + GRACE_S, asked, base).run()
        finally:
            cluster.stop(hurry=lambda: True)  # if anything went wrong in here


def _layout(wish: Wish) -> Layout:
    if wish.edge:
        return open_edge_layout(wish.data, wish.tree, wish.base_port, wish.http_base)
    if (wish.data / TREE).exists():
        raise UsageError(f"the nodes in {wish.data} are an edge tree: thence edge up --data {wish.data}")
    if wish.topology is not None or (wish.data / ZONES).exists():
        if wish.nodes is not None or wish.changing:
            raise UsageError("the topology says which nodes there are: neither --nodes nor --changing")
        return open_zones_layout(wish.data, wish.topology, wish.base_port, wish.http_base)
    return open_layout(wish.data, wish.nodes, wish.base_port, wish.http_base, _changing(wish))


def _checked(flags: Mapping[str, object], edge: bool = False, zoned: bool = False) -> NodeSettings:
    """What a node would refuse is told once and here, before anything is written."""
    for key in (*OURS, *"topology", *(("spread", "parent", "root", "groups") if edge else ())):
        if key in flags:
            raise UsageError(f"--set {key}: the cluster decides this for each node")
    node: dict[str, object] = {**flags, "name": "a", "data": Path(), "members": "a=127.0.0.1:1"}
    if edge:
        del node["members"]
        node |= {"listen": "127.0.0.1:1", "spread": "edge", "root": True}
    elif zoned:
        node |= {"order": node.get("order", SEPARATOR), "topology": Path(ZONES)}
    elif node.get("order") == SEPARATOR:
        raise UsageError("--order separator needs zones: thence up --topology FILE")
    elif node.get("spread") == EDGE:
        raise UsageError("--spread edge: an edge tree is started with `thence edge up --tree FILE`")
    settings = compose(node, os.environ, default_secret=lambda _: b"the cluster has its own")
    must_go_together(settings.order, settings.spread)
    return settings


def _changing(wish: Wish) -> bool | None:
    """Whether members may come and go: they may unless flags say otherwise. None: as it was."""
    if wish.changing is None and not (wish.data / FILE).exists():
        return True
    return wish.changing


@contextmanager
def stopping() -> Iterator[list[int]]:
    """The signals that asked this process to stop, as they come. One started with `nohup` outlives its
    terminal."""
    asked: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, lambda came, _: asked.append(came)) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Glance(NamedTuple):
    seen: list[NodeProbe]
    at: float


class Lookout(threading.Thread):
    """Asks the nodes how they are. A thread, since a paused node lets its client wait."""

    def __init__(self, folders: list[Path]) -> None:
        super().__init__(name="lookout", daemon=True)
        self._folders: Final = folders
        self._over: Final = threading.Event()
        self.latest = Glance([], 0.0)

    def run(self) -> None:
        while not self._over.is_set():
            begun = time.monotonic()  # when those answered that answered at once: rates are counted from it
            self.latest = Glance(look(self._folders), begun)
            self._over.wait(LOOK_EVERY_S)

    def leave(self) -> None:
        self._over.set()


class Up:
    """The cluster, and the person who watches it."""

    def __init__(
        self, cluster: Cluster, load: Load | None, grace_s: float, asked: list[int], resp: int = 0
    ) -> None:
        self._cluster: Final = cluster
        self._load: Final = load
        self._grace_s: Final = grace_s
        self._asked: Final = asked
        self._resp: Final = resp
        """Where the first node answers Redis clients; 0: none does."""
        self._well: dict[str, int] = {}
        """By node, the start (as a number) of which it was told that it is up."""

    def run(self) -> int:
        self._cluster.start()
        say(f"{len(self._cluster.names)} nodes in {self._cluster.layout.folder}; Ctrl-C stops them")
        if self._resp:
            last = self._resp + len(self._cluster.names) - 1
            say(f"Redis clients: ports {self._resp} to {last}, as in redis-cli -p {self._resp}")
        lookout = Lookout(list(self._cluster.folders.values()))
        lookout.start()
        try:
            with table_below() as show:
                self._attend(lookout, show)
        finally:
            lookout.leave()
        return self._stop() if self._asked else self._over()

    def _attend(self, lookout: Lookout, show: "Callable[[RenderableType], None]") -> None:
        before = last = Glance([], 0.0)
        while not self._asked and any(
            node.state in ("running", "waiting") for node in self._cluster.nodes.values()
        ):
            happened = self._tell_events()
            if lookout.latest is not last:
                before, last = last, lookout.latest
                self._care(last.seen)
                happened = True
            if happened:
                seen = [corrected(self._cluster.nodes[one.folder.name], one) for one in last.seen]
                show(page(seen, before.seen, last.at - before.at))
            time.sleep(TICK_S)
        self._tell_events()

    def _tell_events(self) -> bool:
        events = self._cluster.watch()
        for event in events:
            if event.what == "ended" and (left := has_left(self._cluster.nodes[event.name].folder)):
                say(f"{event.name} has left its group, {left}")
                continue
            say(f"{event.name} {event.text}", "" if event.what in ("started", "ended") else "red")
            if event.what in ("refused", "died"):
                for line in self._cluster.nodes[event.name].last_lines():
                    say(f"  {event.name}: {line}", "dim")
        return bool(events)

    def _care(self, seen: list[NodeProbe]) -> None:
        """Tell of nodes that came up, and give them work."""
        for one in seen:
            node = self._cluster.nodes[one.folder.name]
            if one.status is None or one.status.pid != node.pid or one.status.state != "running":
                continue
            if self._well.get(node.name) == node.starts:
                continue
            try:
                control = self._cluster.control(node.name)
                where = self._cluster.layout.address(node.name)
                say(f"{node.name} is up: process {node.pid}, peers at {where}, http://{control.file.address}")
                self._well[node.name] = node.starts
                if self._load is not None and self._cluster.layout.sends(node.name):
                    control.load(self._load)
            except ThenceError as error:  # it may have died since it answered
                say(f"{node.name}: {error}", "red")

    def _stop(self) -> int:
        """In order; a person who asks a second time does not want to wait."""
        say(f"stopping, for up to {self._grace_s:g} s (Ctrl-C again: at once)")
        codes = self._cluster.stop(grace_s=self._grace_s, hurry=lambda: len(self._asked) > 1)
        for name, code in codes.items():
            if code == -signal.SIGTERM:  # a node hears it from before it opens anything
                say(f"{name} was stopped before it had begun")
            elif code == -signal.SIGKILL:
                say(f"{name} did not stop in time and was killed; nothing that it logged is lost", "red")
            elif code:
                say(f"{name} stopped with exit code {code}", "red")
        bad = any(code for code in codes.values() if code != -signal.SIGTERM)
        say("stopped" if not bad else "stopped, not all in order")
        return int(bad)

    def _over(self) -> int:
        """No node is left that runs or will run."""
        nodes = self._cluster.nodes.values()
        say("no node is left")
        if any(node.state == "refused" for node in nodes):
            return 2
        return int(any(node.code for node in nodes))


def corrected(node: NodeProcess, seen: NodeProbe) -> NodeProbe:
    """What a look found, and what we know better: it may be of an earlier process, or of none yet."""
    if node.state != "running":
        whys = {"waiting": "it starts again in a moment", "refused": " ".join(node.last_lines(1))}
        return replace(seen, state=node.state, status=None, why=whys.get(node.state, ""))
    if seen.status is not None and seen.status.pid == node.pid:
        return seen
    if seen.state in ("paused", "silent"):
        return seen
    return replace(seen, state="starting", status=None, why="")


def say(text: str, style: str = "") -> None:
    out.print(Text(text, style))

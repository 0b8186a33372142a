"""Everything that defines a simulated run of an overlay. Equal settings give equal runs, to the byte."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from thence.sim.network import latency
from thence.sim.overlay_links import grid_latencies
from thence.sim.settings import SimSettings, check_run, need

TAGGED = "durable nodes of a simulated tree carry no tags (--order none): a tree with tags is --scenario tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySettings:
    scenario: str = "steady"
    order: str = "none"
    """A tree is causal by itself; `graph` adds exact tags, `probabilistic` clocks that members share."""
    entries: int | None = None
    keys: int | None = None
    recent: int | None = None
    """Of `probabilistic`; None: the document's clock."""
    spread: str = "sync-tree"
    nodes: int = 20
    """Nodes that sending begins with (of a massive join: that it ends with)."""
    messages: int = 30
    """How often each node may send."""
    interval_ms: float = 1000.0
    """The document's: every second ..."""
    probability: float = 1.0
    """... a node sends with this probability."""
    latency: str = "grid"
    """`grid`: nodes on a grid, from `latency_ms` between the closest to `latency_max_ms` (section 5.2 of the
    document); `fixed` or `weibull` as for a mesh."""
    latency_ms: float = 10.0
    latency_max_ms: float = 100.0
    bandwidth_mbit: float = 0.0
    """What a node can send, and take in, in a second; 0: any amount. The document's machines gave each of
    their fifty nodes 500."""
    handling_us: float = 0.0
    """Work per message that arrives, in microseconds of a whole core, of which a node has 0.36 (section 5.2);
    0: none. The document does not say what it was."""
    payload_bytes: int = 1024
    warmup_ms: float = 8000.0
    """Between the last arrival and the first message."""
    arrive_every_ms: float = 50.0
    """Between two of the first nodes."""
    silence_ms: float = 3000.0
    """After so long without a word a link is taken for broken."""
    ttl_ms: float = 60_000.0
    """`eco-sync-tree`: messages stay in the log for so long; a snapshot is taken every half of it, and the
    log collected every quarter (the document's section 5.4.1)."""
    shows_links: bool = False
    """Whether the trace tells what becomes of links, for people to look at."""
    durable: bool = False
    """Whether logs are on simulated disks that forget what was not synced; else they are in memory and forget
    nothing. (`eco-sync-tree` keeps them in memory.)"""
    live: bool = False
    """Whether nodes are made like live ones (`sim.overlay_durable`), on disks that fill up."""
    slow: bool = False
    """Whether, then, a sync takes its time, and other things happen meanwhile."""
    seed: int = 1

    def __post_init__(self) -> None:
        check_run(self.nodes, self.messages, self.payload_bytes, self)
        known = ("grid", "fixed", "weibull")
        need(self.latency in known, f"--latency is {', '.join(known)}, not {self.latency!r}")
        need(0 < self.probability <= 1, f"--probability is above 0 and at most 1, not {self.probability}")
        need(self.interval_ms >= 1, f"--interval-ms must be at least 1, not {self.interval_ms}")
        need(
            0 < self.latency_ms <= self.latency_max_ms, "--latency-ms must be above 0 and not above the most"
        )
        need(min(self.warmup_ms, self.arrive_every_ms) >= 0, "--warmup-ms must not be negative")
        need(self.bandwidth_mbit >= 0, f"--bandwidth-mbit must not be negative, not {self.bandwidth_mbit}")
        need(self.handling_us >= 0, f"--handling-us must not be negative, not {self.handling_us}")
        need(self.ttl_ms >= 1, "--ttl-ms must be at least 1")
        need(self.silence_ms >= 1, "the silence of a link must be at least 1 ms")

    @property
    def interval_us(self) -> int:
        return round(self.interval_ms * 1000)

    @property
    def sending_us(self) -> int:
        """When sending begins: all nodes are there, and the overlay has come to rest."""
        return round(1000 * (self.nodes * self.arrive_every_ms + self.warmup_ms))

    @property
    def until_us(self) -> int:
        return self.sending_us + self.messages * self.interval_us


def delays(settings: OverlaySettings) -> Callable[[int, int], int]:
    """From sender and receiver to microseconds. A node that comes beyond the first `nodes` takes the place of
    one of them. Places on a grid are drawn, so that the smallest node is anywhere."""
    places, random = settings.nodes, Random(f"{settings.seed}/latency")
    if settings.latency == "grid":
        most = round(settings.latency_max_ms * 1000)
        table = grid_latencies(places, round(settings.latency_ms * 1000), most)
        where = random.sample(range(places), places)
        return lambda one, other: table[where[one % places]][where[other % places]]
    flat = SimSettings(nodes=places, latency=settings.latency, latency_ms=settings.latency_ms)
    sample = latency(flat, frozenset(), random)
    return lambda one, other: sample(one % places, other % places)

"""Everything that defines a simulated run. Two runs with equal settings are equal to the byte."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from thence.core.errors import UsageError

MAX_NODES = 10_000
"""Above that a full mesh has more links than a person waits for."""

MAX_PROCESSES = 1_000_000
"""Of a topology of zones."""


def need(true: bool, what: str) -> None:
    if not true:
        raise UsageError(what)


def check_run(nodes: int, messages: int, payload_bytes: int, settings: object) -> None:
    """What all kinds of runs need, whatever else theirs is."""
    for field in fields(settings):  # type: ignore[arg-type]  # settings are dataclasses
        value = getattr(settings, field.name)
        if isinstance(value, float):
            need(math.isfinite(value), f"--{field.name.replace('_', '-')} must be a finite number")
    most = MAX_PROCESSES if getattr(settings, "topology", None) else MAX_NODES
    need(1 <= nodes <= most, f"--nodes must be between 1 and {most}, not {nodes}")
    need(messages >= 0, f"--messages must not be negative: {messages}")
    need(payload_bytes >= 0, f"--payload-bytes must not be negative: {payload_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    scenario: str = "steady"
    order: str = "graph"
    entries: int | None = None
    """Order probabilistic: how many counters a message carries."""
    keys: int | None = None
    """Order probabilistic: how many of them a member increments."""
    recent: int | None = None
    """Order probabilistic: how many deliveries a node remembers, to doubt them."""
    topology: str | None = None
    """Order separator: zones and flows between them (`sim/topologies.py`); default: drawn from the seed."""
    gateways: int | None = None
    """Order separator: of each separator in a topology of levels; one forwards, the others are witnesses."""
    rules: str | None = None
    """Order separator: which rules are in force."""
    filters: str | None = None
    """Order separator: the gateways that filter (R9), by name, separated by commas; default: all."""
    word_ms: float | None = None
    """Order separator: how often a node tells its neighbours what it has delivered (R11)."""
    spread: str = "mesh"
    nodes: int = 8
    messages: int = 50
    """Messages that each node sends."""
    interval_ms: float = 100.0
    """Mean time between two messages of one node."""
    interval: str = "poisson"
    """`fixed`, or `poisson`: exponential times truncated at four times the mean."""
    latency_ms: float = 10.0
    """Baseline of the one-way latency of every link."""
    latency: str = "weibull"
    """`fixed`, or `weibull`: baseline × (1 + W), truncated at baseline × (1 + 3 × scale)."""
    weibull_scale: float = 0.15
    weibull_shape: float = 2.0
    latency_matrix: Path | None = None
    """A file with a row per sender, comma-separated milliseconds per receiver: the baselines."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Share of packets that are held up for up to four more latencies, so that later ones overtake."""
    slow_factor: float = 10.0
    """`slow-link`: how many times slower the link between the first two nodes is."""
    take_ms: float = 0.0
    """How long a delivery waits at most, at random, in the client's queue before it is taken."""
    batch_ms: float = 0.0
    """Messages for one receiver wait up to this long to travel together; 0: each leaves at once."""
    stability: bool = True
    """Whether nodes find out what has become causally stable."""
    payload_bytes: int = 64
    seed: int = 1

    @property
    def batch_us(self) -> int:
        return round(self.batch_ms * 1000)

    def __post_init__(self) -> None:
        check_run(self.nodes, self.messages, self.payload_bytes, self)
        if self.order != "separator":
            for name in ("topology", "gateways", "rules", "filters", "word_ms"):
                need(getattr(self, name) is None, f"--{name.replace('_', '-')} is for --order separator")
        else:
            need(self.spread == "mesh", "--order separator has links of its own: leave --spread out")
            need(self.batch_ms == 0, "--order separator does not batch: leave --batch-ms out")
            need(self.word_ms is None or self.word_ms > 0, f"--word-ms must be above 0: {self.word_ms}")
        need(self.interval in ("fixed", "poisson"), f"--interval is fixed or poisson, not {self.interval!r}")
        need(self.latency in ("fixed", "weibull"), f"--latency is fixed or weibull, not {self.latency!r}")
        for name in ("loss", "duplicate", "reorder"):
            share = getattr(self, name)
            need(0 <= share <= 1, f"--{name} is a share between 0 and 1, not {share}")
        need(self.loss < 1, "--loss 1 loses everything: the run could never end")
        for name in ("latency_ms", "take_ms", "batch_ms", "weibull_scale", "slow_factor"):
            need(getattr(self, name) >= 0, f"--{name.replace('_', '-')} must not be negative")
        need(self.interval_ms > 0, f"--interval-ms must be above 0, not {self.interval_ms}")
        need(self.weibull_shape > 0, f"--weibull-shape must be above 0, not {self.weibull_shape}")

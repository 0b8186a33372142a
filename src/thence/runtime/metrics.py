"""What a node counts, and how Prometheus gets to read it.

Counting happens in the steps of a node, reading every few seconds at most: so an instrument is a few slots
that the node changes in place, and everything else (labels as text, cumulative buckets, callbacks) is left to
the scrape. Nothing here is shared between threads: the loop that counts is the loop that renders.

Invariants: a name has one kind and one help text; counters never sink (the registry cannot see that, callers
must not do it); what is rendered can always be parsed (names are checked when they are made, values of labels
are escaped).

Times are observed as integer microseconds and rendered in seconds, the unit that Prometheus asks for.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, Generic, TypeVar

from thence.core.errors import UsageError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

LATENCY_BOUNDS_US: Final = (
    100, 250, 500,
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
)  # fmt: skip
"""From a loopback's latency to a partition of a minute; what takes longer is in +Inf, and in the sum."""

_NAME: Final = re.compile(r"(thence|process)(_[a-z0-9]+)+")
_LABEL: Final = re.compile(r"[a-z][a-z0-9_]*")

Labels = tuple[str, ...]
"""Values of an instrument's labels, in the order in which the family names them."""


class Counter:
    """How often something happened. Hot code adds to `value` itself."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def lines(self, name: str, labels: str) -> Iterable[str]:
        return (f"{name}{_braced(labels)} {_number(self.value)}",)


class Gauge(Counter):
    """How much of something there is: set in place, or worked out when it is rendered."""

    __slots__ = ()

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """How values are spread over fixed buckets. Observes microseconds, shows seconds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds_us: Sequence[int] = LATENCY_BOUNDS_US) -> None:
        if not bounds_us or list(bounds_us) != sorted(set(bounds_us)):
            raise UsageError(f"bounds of buckets must rise: {tuple(bounds_us)}")
        self._bounds: Final = list(bounds_us)
        self._counts: Final = [0] * (len(bounds_us) + 1)
        self._sum = 0

    def observe(self, value_us: int) -> None:
        self._counts[bisect_left(self._bounds, value_us)] += 1
        self._sum += value_us

    def observe_all(self, values_us: Sequence[int]) -> None:
        """What a step brought at once: cheaper than one by one."""
        bounds, counts = self._bounds, self._counts
        for value in values_us:
            counts[bisect_left(bounds, value)] += 1
        self._sum += sum(values_us)

    @property
    def count(self) -> int:
        return sum(self._counts)

    def lines(self, name: str, labels: str) -> Iterable[str]:
        edges = [*(_number(bound / 1e6) for bound in self._bounds), "+Inf"]
        before = labels + "," if labels else ""
        for edge, total in zip(edges, accumulate(self._counts), strict=True):
            yield f'{name}_bucket{{{before}le="{edge}"}} {total}'
        yield f"{name}_sum{_braced(labels)} {_number(self._sum / 1e6)}"
        yield f"{name}_count{_braced(labels)} {self.count}"


Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)


class Family(Generic[Instrument]):
    """The instruments of one name, one for each combination of values of its labels."""

    __slots__ = ("_children", "_make", "help", "kind", "labels", "name")

    def __init__(
        self, name: str, kind: str, help_text: str, labels: Labels, make: Callable[[], Instrument]
    ) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.help: Final = help_text
        self.labels: Final = labels
        self._make: Callable[[], Instrument] = make
        self._children: dict[Labels, Instrument] = {}

    def of(self, *values: str) -> Instrument:
        """The instrument with these values; keep it where it is used often."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.labels):
                raise UsageError(f"{self.name} has the labels {self.labels}, not {len(values)} of them")
            child = self._children[values] = self._make()
        return child

    def forget(self, keep: Iterable[Labels] = ()) -> None:
        """Show no others than these from now on: a member that is gone has no lag."""
        kept = set(keep)
        self._children = {values: child for values, child in self._children.items() if values in kept}

    def lines(self) -> Iterable[str]:
        yield f"# HELP {self.name} {_escape(self.help)}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, child in self._children.items():
            shown = ",".join(
                f'{label}="{_escape(value, quotes=True)}"'
                for label, value in zip(self.labels, values, strict=True)
            )
            yield from child.lines(self.name, shown)


class Registry:
    """Everything that one node exposes."""

    __slots__ = ("_families", "_refreshers")

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
        self._refreshers: list[Callable[[], None]] = []

    def counters(self, name: str, help_text: str, *labels: str) -> Family[Counter]:
        if not name.endswith("_total"):
            raise UsageError(f"the name of a counter ends with _total: {name}")
        return self._enter(Family(name, "counter", help_text, labels, Counter))

    def gauges(self, name: str, help_text: str, *labels: str) -> Family[Gauge]:
        return self._enter(Family(name, "gauge", help_text, labels, Gauge))

    def histograms(
        self, name: str, help_text: str, *labels: str, bounds_us: Sequence[int] = LATENCY_BOUNDS_US
    ) -> Family[Histogram]:
        if not name.endswith("_seconds"):
            raise UsageError(f"a histogram is of times, its name ends with _seconds: {name}")
        return self._enter(Family(name, "histogram", help_text, labels, lambda: Histogram(bounds_us)))

    def counter(self, name: str, help_text: str) -> Counter:
        return self.counters(name, help_text).of()

    def gauge(self, name: str, help_text: str, read: Callable[[], float] | None = None) -> Gauge:
        """With `read`, its value is asked for at each scrape."""
        gauge = self.gauges(name, help_text).of()
        if read is not None:
            self.refresh(lambda: gauge.set(read()))
        return gauge

    def histogram(self, name: str, help_text: str, bounds_us: Sequence[int] = LATENCY_BOUNDS_US) -> Histogram:
        return self.histograms(name, help_text, bounds_us=bounds_us).of()

    def refresh(self, refresher: Callable[[], None]) -> None:
        """Call this before each scrape, to bring up to date what is not counted as it happens."""
        self._refreshers.append(refresher)

    def render(self) -> str:
        """The text exposition format of Prometheus, version 0.0.4."""
        for refresher in self._refreshers:
            refresher()
        return "".join(f"{line}\n" for family in self._families.values() for line in family.lines())

    def _enter(self, family: Family[Instrument]) -> Family[Instrument]:
        if not _NAME.fullmatch(family.name):
            raise UsageError(f"not the name of a metric of thence: {family.name!r}")
        for label in family.labels:
            if not _LABEL.fullmatch(label) or label == "le":
                raise UsageError(f"not a label: {label!r}")
        if family.name in self._families:
            raise UsageError(f"there is a metric {family.name} already")
        self._families[family.name] = family
        return family


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _escape(text: str, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    if quotes:
        escaped = escaped.replace('"', '\\"')
    # A name with lone surrogates cannot be written as UTF-8; the page must not fail for it.
    return escaped.encode("utf-8", "replace").decode()

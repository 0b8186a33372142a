"""How large an (N, R, K) clock must be, and how often it will err (section 5.3 of the document).

X messages are under way at a time. A message that is missing at a receiver has its K entries covered by them
with probability c = (1 − (1 − 1/R)^(K·X))^K, as in a Bloom filter, which is least where K = ln 2 · R / X.

The document bounds the error by P_nc · c and leaves P_nc open, the probability that a cause is missing; here
that is 1 − exp(−M), see below. Entries are not covered independently, nor all within one delay, so
`clock` derives another prediction. Delays are roughly normal, and independent but for what receivers of one
message share. A message leaves j; a cause of it comes to the receiver t after that, and the message itself
earlier than that. The cause left its sender t less than its own delay before. If it is j's, that is all; if
not, it must have reached j in time. So causes come t late at the rates

    own(t) = rate · P(d > t),   other(t) = (N − 2) · rate · P(d1 − d2 > t),   ρ = own + other

and with P(d < t) the message is there before. M = ∫ ρ(t) · P(d < t) is how many causes are missing.

A message waits for all that it lacks. What is covered stays covered, so that it comes too early exactly if
the *last* of its causes is covered just before it comes:

    errors = ∫ ρ(t) · exp(−∫ over t' > t of ρ) · P(d < t) · c(t) dt

What covers is what reached the receiver by then, and j not before it sent: of each other member what it sent
in a time of E[(t + d2 − d1)⁺], of the receiver itself in t and its way to j. A member that sends twice covers
no more entries than one that sends once: each of N − 2 members covers with the probability p = 1 −
exp(−rate · time) a set of K distinct entries. Such a set avoids i given entries with the probability q(i) =
C(R − i, K) / C(R, K), so that by inclusion and exclusion

    c = Σ over i of (−1)^i · C(K, i) · (1 − p · (1 − q(i)))^(N − 2)

Departure: (1 − q(1))^K, as if entries were independent, is up to a tenth too high for few
keys, and more for many.
"""

from dataclasses import dataclass
from math import ceil, comb, erfc, exp, expm1, fsum, isfinite, log, pi, sqrt
from typing import Final

from thence.core.errors import UsageError

MOST_ENTRIES: Final = 1_000_000

MANY: Final = 500.0
"""From so many members on their number hardly varies."""

SLICES: Final = 64
"""Of the integral over lateness."""

EXACT: Final = 10
"""Up to so many keys inclusion and exclusion leaves enough digits."""


def covered(entries: int, keys: int, under_way: float) -> float:
    """The probability that others increment all keys of a missing message."""
    if entries == 1:
        return 1.0 if under_way > 0 else 0.0
    none = (1 - 1 / entries) ** (keys * under_way)
    return float((1 - none) ** keys)


def best_keys(entries: int, under_way: float) -> int:
    """The whole number of keys that errs least: one of those around ln 2 · R / X."""
    ideal = min(log(2) * entries / under_way, float(entries))
    low = max(1, int(ideal))
    return min({low, min(low + 1, entries)}, key=lambda keys: (covered(entries, keys, under_way), keys))


def covered_by(entries: int, keys: int, members: int, share: float, receiver: float = 0.0) -> float:
    """The same if each of so many members sends with this probability, and increments distinct entries; and
    the receiver itself with another."""
    if keys > EXACT:
        return _one_by_one(entries, keys, members + (receiver > 0), share)
    sets = comb(entries, keys)
    terms = []
    for given in range(keys + 1):
        meets = 1 - comb(entries - given, keys) / sets
        avoided = (1 - share * meets) ** members * (1 - receiver * meets)
        terms.append((-1) ** given * comb(keys, given) * avoided)
    return max(0.0, fsum(terms))


def _one_by_one(entries: int, keys: int, members: int, share: float) -> float:
    """As if entries were covered independently of each other: too high."""
    spares = 1 - keys / entries
    mean = members * share
    if mean > MANY or share == 1:
        return float((1 - spares**mean) ** keys)
    chance, whole = (1 - share) ** members, 0.0
    for count in range(1, min(members, ceil(mean + 10 * sqrt(mean) + 20)) + 1):
        chance *= (members + 1 - count) / count * share / (1 - share)
        whole += chance * float((1 - spares**count) ** keys)
    return whole


def below(z: float) -> float:
    """The normal distribution."""
    return erfc(-z / sqrt(2)) / 2


def beyond(mean: float, deviation: float) -> float:
    """The mean of a normal number, where it is above 0."""
    if deviation == 0:
        return max(0.0, mean)
    z = mean / deviation
    return mean * below(z) + deviation * exp(-z * z / 2) / sqrt(2 * pi)


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock under a load: what it costs and how it errs."""

    entries: int
    keys: int
    covered: float
    """The share of missing messages that the clock does not miss."""
    documented: float
    """The share of deliveries that come before a cause, by the document's formula."""
    errors: float
    """By ours."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """A slice of the integral."""

    late: float
    """Milliseconds after a message was sent."""
    causes: float
    """Of it that come then, on average."""
    before: float
    """The probability that it is there before them."""


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """What a group sends, and how long it is under way."""

    nodes: int
    rate: float
    """Messages a second of one member."""
    delay_ms: float
    deviation_ms: float
    skew_ms: float | None = None
    """Deviation between receivers of one message, where it is smaller: messages that are late are late for
    all of them."""

    def __post_init__(self) -> None:
        for what, value in (("nodes", self.nodes), ("rate", self.rate), ("delay-ms", self.delay_ms)):
            if not (isfinite(value) and value > 0):
                raise UsageError(f"--{what} must be above 0, not {value}")
        if not (isfinite(self.deviation_ms) and self.deviation_ms >= 0):
            raise UsageError(f"--deviation-ms must not be negative: {self.deviation_ms}")
        if self.skew_ms is not None and not 0 <= self.skew_ms <= self.deviation_ms:
            raise UsageError(f"--skew-ms must be between 0 and the deviation, not {self.skew_ms}")
        if self.nodes < 2:
            raise UsageError("--nodes must be at least 2: one member has nothing to order")

    @property
    def under_way(self) -> float:
        """X: messages sent while one is under way."""
        return self.nodes * self.rate * self.delay_ms / 1000

    @property
    def _skew(self) -> float:
        return self.deviation_ms if self.skew_ms is None else self.skew_ms

    def late(self) -> list[Lateness]:
        mean, deviation, skew = self.delay_ms, self.deviation_ms, self._skew
        if deviation == 0:
            return []
        low, high = max(0.0, mean - 5 * deviation), mean + 5 * deviation
        step = (high - low) / SLICES
        found = []
        for slice_ in range(SLICES):
            late = low + (slice_ + 0.5) * step
            z = (late - mean) / deviation
            reached = below(-late / (sqrt(2) * skew)) if skew else 0.0
            causes = self.rate / 1000 * (below(-z) + (self.nodes - 2) * reached) * step
            found.append(Lateness(late, causes, below(z)))
        return found

    @property
    def missing(self) -> float:
        """M: causes that are missing when a message arrives."""
        return sum(slice_.causes * slice_.before for slice_ in self.late())

    def clock(self, entries: int, keys: int | None = None) -> Clock:
        """What to expect of so many entries, with the best number of keys or this one."""
        if not 1 <= entries <= MOST_ENTRIES:
            raise UsageError(f"--entries must be between 1 and {MOST_ENTRIES}, not {entries}")
        keys = best_keys(entries, self.under_way) if keys is None else keys
        if not 1 <= keys <= entries:
            raise UsageError(f"--keys must be between 1 and the {entries} entries, not {keys}")
        errors = later = 0.0
        for slice_ in reversed(self.late()):
            last = slice_.causes * exp(-later - slice_.causes / 2)
            errors += last * slice_.before * self._covered(entries, keys, slice_.late)
            later += slice_.causes
        share = covered(entries, keys, self.under_way)
        return Clock(entries, keys, share, -expm1(-self.missing) * share, errors)

    def _covered(self, entries: int, keys: int, late: float) -> float:
        """The probability that others have covered a cause by the time that it comes."""
        rate = self.rate / 1000
        share, own = (
            -expm1(-rate * time) for time in (beyond(late, sqrt(2) * self._skew), late + self.delay_ms)
        )
        return covered_by(entries, keys, self.nodes - 2, share, own)

    def smallest(self, target: float) -> Clock | None:
        """The clock with the fewest entries that errs in at most this share of deliveries; none: it would
        take more than a million."""
        if not 0 < target < 1:
            raise UsageError(f"--target is a share between 0 and 1, not {target}")
        low, high = 0, 1
        while self.clock(high).errors > target:
            low, high = high, 2 * high
            if high > MOST_ENTRIES:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.clock(middle).errors > target:
                low = middle
            else:
                high = middle
        return self.clock(high)

    def caveats(self, clock: Clock) -> list[str]:
        """Where the formula does not hold for this clock under this load."""
        found = []
        if self.nodes <= clock.entries:
            found.append(
                f"{self.nodes} members need no more than {self.nodes} entries: a vector clock never errs"
            )
        if clock.entries < self.under_way / log(2):
            least = ceil(self.under_way / log(2))
            found.append(f"below {least} entries not even one key is few enough: most entries are covered")
        if self.under_way < 1:
            found.append("less than one message is under way: an error needs two that cover a third")
        if comb(clock.entries, clock.keys) < self.nodes:
            found.append("there are more members than sets of keys: some have the same")
        if self.missing > 0.1:
            found.append(
                f"{self.missing:.2g} causes are missing when a message arrives: errors follow from errors, "
                "and the prediction is too low"
            )
        return found

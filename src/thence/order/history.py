"""Extended causal histories: what precedes the next hop of a process, and which addressees know.

Rules R2, R4 and R6 to R9 of chapter 4 of the causal separators document, with its carbon copies, and three
more: R6.4, R10 and R11 (docs/protocols/separators.md). Each can be switched off.

State. `_entries`: by hop sender, then by counter, what is known of a hop: its residual (the addressees that
may still have to wait for it) and who was told of it. `_heard`: by process, what it says it has delivered.

Invariant. A process that is missing from a residual, or counts as told, was told in the past of the next hop
sent here, or has delivered the hop, or is cut off from it by a separator.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import UsageError

Processes = frozenset[int]

NONE: Final[Processes] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which rules are in force; R1 to R4 always are."""

    fifo: bool = True
    """R5: hops of one sender are ordered, so that delivered ones are a counter, and the addressees of a later
    one were told of the earlier ones (R6.3)."""
    copies: bool = True
    """R6: the processes that were told are kept. R7, R8 and R9 need them."""
    carried: bool = False
    """R6.1: it travels with stamps."""
    covered: bool = True
    """R6.4: a hop that is learnt covers older ones of its sender."""
    brief: bool = True
    """R7: stamps leave out what all addressees were told."""
    forget: bool = True
    """R8: what all of its residual were told is dropped."""
    separate: bool = True
    """R9: separators leave out what does not concern the other side."""
    residual: bool = True
    """R10: stamps name only processes that were not told."""
    words: bool = True
    """R11: what a process said that it has delivered need not be waited for there."""

    def __post_init__(self) -> None:
        needing = self.carried or self.covered or self.brief or self.forget or self.separate or self.residual
        if needing and not self.copies:
            raise UsageError("rules R6.1, R6.4 and R7 to R10 need R6")
        if (self.covered or self.words) and not self.fifo:
            raise UsageError("rules R6.4 and R11 need R5")


OFF: Final = dict.fromkeys([field.name for field in fields(Rules)], False)

RULES: Final[dict[str, Rules]] = {
    name: Rules(**{**OFF, **dict.fromkeys(on.split(), True)})
    for name, on in {
        "1-4": "",
        "1-5": "fifo",
        "1-7": "fifo copies covered brief",
        "1-6,8": "fifo copies covered forget",
        "1-8": "fifo copies covered brief forget",
        "1-9": "fifo copies covered brief forget separate",
        "1-8,10": "fifo copies covered brief forget residual",
        "1-8,10,11": "fifo copies covered brief forget residual words",
        "1-10": "fifo copies covered brief forget separate residual",
        "1-11": "fifo copies covered brief forget separate residual words",
        "1-4,6-10": "copies brief forget separate residual",
        "all": " ".join(OFF),
    }.items()
}


def rules(name: str) -> Rules:
    try:
        return RULES[name]
    except KeyError:
        raise UsageError(f"unknown rules {name!r}; there is {', '.join(RULES)}") from None


class SeparatorCut(NamedTuple):
    """A separator as one of its members sees it, in one direction."""

    others: Processes
    """Its other members."""
    ahead: Container[int]
    behind: Container[int]


class HistoryEntry:
    """What is known of one hop."""

    __slots__ = ("residual", "told")

    def __init__(self, residual: Processes, told: Processes) -> None:
        self.residual = residual
        self.told = told


class Noted(NamedTuple):
    """A hop as a stamp names it."""

    hop: int
    """Its sender and the sender's counter, as a dot."""
    residual: Processes
    told: Processes = NONE
    """R6.1."""


class KeptHistory(NamedTuple):
    """All of a history, to be written down."""

    counter: int
    entries: list[Noted]
    heard: dict[int, dict[int, int]]
    lost: set[int]


class CausalHistory:
    """One process's (c, H, C, K)."""

    __slots__ = ("_cuts", "_entries", "_heard", "_lost", "_me", "_rules", "counter")

    def __init__(self, me: int, rules: Rules, cuts: Iterable[SeparatorCut] = ()) -> None:
        self._me: Final = me
        self._rules: Final = rules
        self._cuts = list(cuts)
        self._entries: dict[int, dict[int, HistoryEntry]] = {}
        self._heard: dict[int, dict[int, int]] = {}
        self._lost: set[int] = set()
        self.counter = 0

    def __len__(self) -> int:
        return sum([len(hops) for hops in self._entries.values()])

    def __iter__(self) -> Iterator[tuple[int, HistoryEntry]]:
        for sender, hops in self._entries.items():
            for counter, entry in hops.items():
                yield pack(sender, counter), entry

    def words(self) -> int:
        """Metadata kept, in words of eight bytes."""
        kept = sum([3 + len(entry.residual) + len(entry.told) for _, entry in self])
        return kept + sum([2 * len(said) + 1 for said in self._heard.values()])

    # Sending and delivering

    def send(self, address: Processes) -> tuple[int, list[Noted]]:
        """The next hop, to these neighbours: its dot and its stamp (R2, R4, R6.2)."""
        rules, me = self._rules, self._me
        self.counter += 1
        stamp = []
        for hop, entry in self:
            told = entry.told
            informed = rules.brief and address <= told
            carried = not (informed or (rules.separate and self._filtered(entry, address)))
            if carried:
                residual = entry.residual - told if rules.residual else entry.residual
                stamp.append(Noted(hop, residual, told if rules.carried else NONE))
            if rules.copies:
                entry.told = told | address | {me} if carried else told | {me}
        self._entries.setdefault(me, {})[self.counter] = HistoryEntry(address - self._lost, NONE)
        self._prune()
        return pack(me, self.counter), stamp

    def _filtered(self, entry: HistoryEntry, address: Processes) -> bool:
        """R9: is there a separator that keeps this hop from where the next one goes?"""
        told = entry.told
        for others, ahead, behind in self._cuts:
            if (
                others <= told
                and all(process in behind for process in entry.residual - told)
                and all(process in ahead for process in address - told)
            ):
                return True
        return False

    def deliver(self, hop: int, address: Processes, stamp: Iterable[Noted]) -> None:
        """A hop of another process was delivered here (R4, R6.3, R6.4, R10, R11)."""
        rules, entries = self._rules, self._entries
        sender = hop & ORIGIN_MASK
        if rules.copies and rules.fifo:
            for entry in entries.get(sender, {}).values():
                entry.told |= address
        reached = address | {sender}
        for noted in stamp:
            self._learn(noted, reached)
        told = frozenset((sender, self._me)) if rules.copies else NONE
        entries.setdefault(sender, {})[hop >> ORIGIN_BITS] = HistoryEntry(self._due(hop, address), told)
        self._prune()

    def _learn(self, noted: Noted, reached: Processes) -> None:
        rules = self._rules
        origin, counter = noted.hop & ORIGIN_MASK, noted.hop >> ORIGIN_BITS
        residual = self._due(noted.hop, noted.residual)
        hops = self._entries.setdefault(origin, {})
        told = NONE
        if rules.copies:
            later = [other.residual for number, other in hops.items() if number > counter]
            told = reached.union(noted.told, *(later if rules.fifo else ()))
            if rules.covered:
                for number, other in hops.items():
                    if number < counter:
                        other.told |= noted.residual
        entry = hops.get(counter)
        if entry is None:
            hops[counter] = HistoryEntry(residual, told)
        else:
            entry.residual &= residual
            entry.told |= told

    def _due(self, hop: int, residual: Processes) -> Processes:
        """Without those that are known to have delivered the hop, or are dead."""
        if not self._heard and not self._lost:
            return residual
        origin, counter = hop & ORIGIN_MASK, hop >> ORIGIN_BITS
        done = [
            process
            for process in residual
            if process in self._lost or self._heard.get(process, {}).get(origin, 0) >= counter
        ]
        return residual.difference(done) if done else residual

    def _prune(self) -> None:
        """R8."""
        if not self._rules.forget:
            return
        for sender, hops in list(self._entries.items()):
            done = [counter for counter, entry in hops.items() if entry.residual <= entry.told]
            for counter in done:
                del hops[counter]
            if not hops:
                del self._entries[sender]

    # What others say

    def heard(self, process: int, delivered: Iterable[int]) -> None:
        """R11: `process` has delivered these hops, and the earlier ones of their senders."""
        said = self._heard.setdefault(process, {})
        for hop in delivered:
            origin, counter = hop & ORIGIN_MASK, hop >> ORIGIN_BITS
            if counter <= said.get(origin, 0):
                continue
            said[origin] = counter
            for number, entry in self._entries.get(origin, {}).items():
                if number <= counter:
                    entry.residual -= {process}
        self._prune()

    def lose(self, process: int) -> None:
        """`process` is dead: nothing will have to wait there."""
        self._lost.add(process)
        self._heard.pop(process, None)
        for _, entry in self:
            entry.residual -= {process}
        self._prune()

    # Over a restart

    def kept(self) -> KeptHistory:
        heard = {process: dict(said) for process, said in self._heard.items()}
        return KeptHistory(self.counter, self.snapshot(), heard, set(self._lost))

    def restore(self, kept: KeptHistory) -> None:
        self.counter = kept.counter
        self._heard, self._lost = kept.heard, kept.lost
        self._entries = {}
        for hop, residual, told in kept.entries:
            hops = self._entries.setdefault(hop & ORIGIN_MASK, {})
            hops[hop >> ORIGIN_BITS] = HistoryEntry(residual, told)

    # Joins and incomplete orders

    def use(self, cuts: Iterable[SeparatorCut]) -> None:
        """Separators have changed: these, from the next hop on."""
        self._cuts = list(cuts)

    def snapshot(self) -> list[Noted]:
        """H and C, for a newcomer or for another history."""
        return [Noted(hop, entry.residual, entry.told) for hop, entry in self]

    def merge(self, other: Iterable[Noted]) -> None:
        """Take a snapshot in: what precedes it precedes the next hop. Sound where that hop is sent with this
        history: a claim of the other history is worth nothing in one that does not hold its hops."""
        for noted in other:
            origin, counter = noted.hop & ORIGIN_MASK, noted.hop >> ORIGIN_BITS
            hops = self._entries.setdefault(origin, {})
            residual = self._due(noted.hop, noted.residual)
            if counter in hops:
                hops[counter].residual &= residual
                hops[counter].told |= noted.told
            else:
                hops[counter] = HistoryEntry(residual, noted.told)
        self._prune()

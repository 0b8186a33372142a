"""What the clients of all members have seen, passed on over a tree: phantoms without a mesh.

Over a mesh a member tells every other what its client has seen (`order/herald.py` says when). Over a tree
there are a few neighbours. So each node keeps the newest *word* of every member (a number and a context),
passes on over its branches whatever is new to it, and gives all of them to a neighbour that it begins to
stream to. Words are small and only the newest of each member counts: they are gathered for a moment and go
out together.

Invariants. A word replaces one of a lower number of the same member, and numbers go on over restarts.
Whoever is streamed to has, or is about to get, every word that this node has: so a word reaches everyone that
messages reach, and nobody needs to ask for one. Each word crosses each branch once (in a circle that is about
to be pruned, twice).
"""

from typing import Final, NamedTuple

from thence.core.machine import NEVER
from thence.core.overlay import Tellings

GATHER_US: Final = 20_000
"""How long a word may wait for others: a fifth of a beat, and less than anybody notices who waits for
stability, which takes words from everyone."""


class Word(NamedTuple):
    number: int
    context: tuple[int, ...]


class Words:
    __slots__ = ("_due", "_fresh", "_me", "_next", "_words")

    def __init__(self, me: int, first: int) -> None:
        """`first`: above every number that this member has ever used."""
        self._me = me
        self._next = first
        self._words: dict[int, Word] = {}
        self._fresh: dict[int, int] = {}
        """Words to be passed on, and by whom they came."""
        self._due = NEVER

    @property
    def due(self) -> int:
        return self._due

    def items(self) -> list[tuple[int, tuple[int, ...]]]:
        """Of the others: member and context."""
        return [(member, word.context) for member, word in self._words.items() if member != self._me]

    def say(self, context: tuple[int, ...], now: int) -> None:
        """The own client has seen this."""
        self._next += 1
        self._keep(self._me, Word(self._next, context), self._me, now)

    def hear(self, via: int, tellings: Tellings, now: int) -> list[tuple[int, tuple[int, ...]]]:
        """What is new in it."""
        found = []
        for member, number, context in tellings.told:
            known = self._words.get(member)
            if member != self._me and (known is None or known.number < number):
                self._keep(member, Word(number, context), via, now)
                found.append((member, context))
        return found

    def _keep(self, member: int, word: Word, via: int, now: int) -> None:
        self._words[member] = word
        self._fresh[member] = via
        self._due = min(self._due, now + GATHER_US)

    def everything(self) -> Tellings:
        return Tellings(tuple([(member, *word) for member, word in self._words.items()]))

    def take(self, peers: tuple[int, ...], now: int) -> list[tuple[int, Tellings]]:
        """What to pass on to whom, if it is time."""
        if now < self._due:
            return []
        fresh, self._fresh, self._due = self._fresh, {}, NEVER
        found = []
        for peer in peers:
            told = [(member, *self._words[member]) for member, via in fresh.items() if via != peer]
            if told:
                found.append((peer, Tellings(tuple(told))))
        return found

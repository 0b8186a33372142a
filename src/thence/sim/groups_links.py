"""Session links between simulated processes of a changing group: in order, lossless, until they break.

There is a link between two that run and whose packets are not cut off, either way. It breaks when that ends,
and now and then for no reason. Then whatever is under way is lost; each end hears of it some time later, and
may go on sending into nothing until then. The next link comes up only when both have heard.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from random import Random
from typing import Any, Final, Protocol

LOOK_US = 40_000
"""How often links are looked after."""

LATE_US = 300_000
"""How long it takes an end, at most, to notice that a link broke."""


class Surroundings(Protocol):
    """What links need of their world."""

    now: int

    def at(self, when: int, action: Callable[[], None]) -> None: ...

    def life(self, name: str) -> int:
        """Which life of a process this is; -1: it does not run."""
        ...

    def paused(self, name: str) -> int:
        """Until when a process does nothing, and whatever happens to it waits."""
        ...

    def is_cut(self, one: str, other: str) -> bool: ...

    def is_wanted(self, one: str, other: str) -> bool:
        """Does either keep a link to the other?"""
        ...

    def told(self, name: str, other: str, up: bool) -> None:
        """An end hears that a link came up, or broke."""
        ...

    def arrive(self, sender: str, receiver: str, packet: Any, data: bytes | None) -> bool:
        """Returns whether the receiver could make sense of it."""
        ...


class SimLink:
    __slots__ = ("lives", "order", "told", "whole")

    def __init__(self, lives: dict[str, int]) -> None:
        self.lives = lives
        self.told: set[str] = set()
        """Ends that know of it."""
        self.order = dict.fromkeys(lives, 0)
        self.whole = True


class SimLinks:
    def __init__(
        self,
        world: Surroundings,
        names: list[str],
        random: Random,
        wanted: Callable[[], Iterable[tuple[str, str]]] | None = None,
        strict: bool = False,
    ) -> None:
        """`wanted`: pairs that there may be links between, each in order; else all. `strict`: a packet that a
        cut takes breaks its link, however short the cut is, and a paused end holds the next link up until it
        has heard (kept seeds of groups were found without)."""
        self._strict: Final = strict
        self._world = world
        every_pair = list(combinations(sorted(names), 2)) if wanted is None else []
        self._wanted = wanted or (lambda: every_pair)
        self._random = random
        self._links: dict[tuple[str, str], SimLink] = {}
        self.breaks = 0.0
        """Share of links that break for no reason, whenever they are looked after."""
        self.broken = 0
        self._look()

    def _look(self) -> None:
        for pair in self._wanted():
            self.look_after(pair)
        self._world.at(self._world.now + LOOK_US, self._look)

    def look_after(self, pair: tuple[str, str]) -> None:
        """Make a link, or break it."""
        world = self._world
        lives = {name: world.life(name) for name in pair}
        able = min(lives.values()) >= 0 and not (world.is_cut(*pair) or world.is_cut(*pair[::-1]))
        able = able and world.is_wanted(*pair)
        link = self._links.get(pair)
        if link is None:
            if able:
                self._connect(pair, lives)
        elif link.whole and (
            not able or link.lives != lives or (self.breaks and self._random.random() < self.breaks)
        ):
            self._break(pair, link)

    def lost(self, sender: str, receiver: str) -> None:
        """A cut took a packet."""
        pair = (sender, receiver) if sender < receiver else (receiver, sender)
        link = self._links.get(pair)
        if self._strict and link is not None and link.whole:
            self._break(pair, link)

    def has(self, pair: tuple[str, str]) -> bool:
        return pair in self._links

    def pairs(self) -> list[tuple[str, str]]:
        """That there are links between, or were until a moment ago."""
        return list(self._links)

    def _connect(self, pair: tuple[str, str], lives: dict[str, int]) -> None:
        link = self._links[pair] = SimLink(lives)
        for name in pair:
            delay = int(self._random.random() * 20_000)
            self._world.at(self._world.now + delay, lambda name=name: self._tell(pair, link, name))  # type: ignore[misc]

    def _waits(self, name: str, action: Callable[[], None]) -> bool:
        """A process that is paused hears later, and is taken to send over the link that it knows."""
        until = self._world.paused(name)
        if until > self._world.now:
            self._world.at(until, action)
        return until > self._world.now

    def _tell(self, pair: tuple[str, str], link: SimLink, name: str) -> None:
        if self._waits(name, lambda: self._tell(pair, link, name)):
            return
        if link.whole and name not in link.told and self._world.life(name) == link.lives[name]:
            link.told.add(name)
            self._world.told(name, pair[pair[0] == name], True)

    def _break(self, pair: tuple[str, str], link: SimLink) -> None:
        link.whole = False
        self.broken += 1
        world = self._world
        latest = world.now
        for name in sorted(link.told):
            when = world.now + int(self._random.random() * LATE_US)
            latest = max(latest, when)
            world.at(when, lambda name=name: self._notice(pair, link, name))  # type: ignore[misc]
        world.at(latest + 1, lambda: self._forget(pair, link))

    def _forget(self, pair: tuple[str, str], link: SimLink) -> None:
        paused = max([self._world.paused(name) for name in link.told if self._strict], default=0)
        if paused > self._world.now:
            self._world.at(paused + 1, lambda: self._forget(pair, link))
        else:
            del self._links[pair]

    def _notice(self, pair: tuple[str, str], link: SimLink, name: str) -> None:
        if self._waits(name, lambda: self._notice(pair, link, name)):
            return
        if self._world.life(name) == link.lives[name]:
            self._world.told(name, pair[pair[0] == name], False)

    def transmit(self, sender: str, receiver: str, packet: Any, data: bytes | None, delay: int) -> bool:
        """Returns whether there is a link, as far as the sender knows."""
        pair = (sender, receiver) if sender < receiver else (receiver, sender)
        link = self._links.get(pair)
        if link is None or sender not in link.told or self._world.life(sender) != link.lives[sender]:
            return False  # also if it was another life of the sender that was told
        when = link.order[sender] = max(self._world.now + delay, link.order[sender])
        self._world.at(when, lambda: self._arrive(pair, link, sender, receiver, packet, data))
        return True

    def _arrive(
        self,
        pair: tuple[str, str],
        link: SimLink,
        sender: str,
        receiver: str,
        packet: Any,
        data: bytes | None,
    ) -> None:
        if self._waits(receiver, lambda: self._arrive(pair, link, sender, receiver, packet, data)):
            return
        if not link.whole or self._world.life(receiver) != link.lives[receiver]:
            return
        self._tell(pair, link, receiver)
        if self._world.life(receiver) != link.lives[receiver]:
            return  # it went down over the news
        if not self._world.arrive(sender, receiver, packet, data) and link.whole:
            self._break(pair, link)

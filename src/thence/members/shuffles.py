"""When a node of a partial view exchanges names with another, and which: a part of `hyparview`.

Every so often, with some chance; sooner where places are free and no name is left to fill them with, at
growing intervals until the next neighbour is lost.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from thence.core.machine import NEVER
from thence.core.overlay import Shuffle
from thence.members.views import Passive, ViewSettings


class Shuffles:
    __slots__ = ("_hurry_wait", "_random", "_settings", "at", "offered")

    def __init__(self, settings: ViewSettings, random: Random) -> None:
        self._settings: Final = settings
        self._random: Final = random
        self._hurry_wait = settings.retry_first_us
        self.at = NEVER
        self.offered: tuple[int, ...] = ()
        """Names that were sent last: they may be forgotten for those that come in return."""

    def plan(self, now: int) -> None:
        """The next one."""
        self.at = now + jittered(self._settings.shuffle_every_us, self._random)

    def hurry(self, now: int) -> None:
        """With free places and no candidate, it is worth asking around before the time."""
        if self.at > now + 2 * self._hurry_wait:
            self.at = now + jittered(self._hurry_wait, self._random)
            self._hurry_wait = min(2 * self._hurry_wait, self._settings.shuffle_every_us)

    def lost(self) -> None:
        """A neighbour was: there is reason to hurry."""
        self._hurry_wait = self._settings.retry_first_us

    def begin(self, me: int, active: Iterable[int], passive: Passive) -> tuple[int, Shuffle]:
        """The neighbour to ask, and what. There is one."""
        settings, neighbours = self._settings, list(active)
        peer = self._random.choice(neighbours)
        others = [other for other in neighbours if other != peer]
        nodes = self._random.sample(others, min(len(others), settings.shuffle_active))
        self.offered = (*nodes, *passive.sample(settings.shuffle_passive))
        return peer, Shuffle(me, settings.shuffle_steps, self.offered)


def jittered(wait: int, random: Random) -> int:
    return wait // 2 + random.randrange(wait)

"""A member that lies, in any world of steps: some of what it sends differs in one place."""

from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (0, 1, 2, 3, 5, 8, 1 << 20, 1 << 32, 1 << 41, (1 << 53) + 1, (1 << 63) - 1)


class LyingMember:
    """Changes one number, name, flag or byte, anywhere in a packet; one in ten by default."""

    def __init__(
        self, world: Any, name: str, random: Random, words: Sequence[str], share: float = 0.1
    ) -> None:
        """`words`: names that it may put in place of others."""
        self.lies = 0
        self._world, self._name, self._random, self._words = world, name, random, words
        self._share = share
        self._honest = world.filter
        world.filter = self._betray
        world.liars.add(name)

    def _betray(self, sender: str, receiver: str, packet: Any) -> Any:
        if sender == self._name and self._random.random() < self._share:
            lie = self.other(packet)
            if self._fits(lie):
                self.lies += 1
                packet = lie
        return self._honest(sender, receiver, packet)

    def _fits(self, packet: Any) -> bool:
        try:
            self._world.encode(packet)
        except (ValueError, OverflowError, TypeError):
            return False
        return True

    def other(self, value: Any) -> Any:
        random = self._random
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return random.choice((max(0, value - 1), value + 1, value + 2, *NUMBERS))
        if isinstance(value, str):
            return random.choice(self._words)
        if isinstance(value, bytes):
            return self._bytes(value)
        if not value:
            return value
        at = random.randrange(len(value))
        parts = [*value[:at], self.other(value[at]), *value[at + 1 :]]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return tuple(parts[:at] + parts[at + 1 :] if random.random() < 0.1 else parts)

    def _bytes(self, value: bytes) -> bytes:
        if not value or self._random.random() < 0.2:
            return value[:-1] if self._random.random() < 0.5 else value + b"\1"
        at = self._random.randrange(len(value))
        return value[:at] + bytes((self._random.randrange(256),)) + value[at + 1 :]

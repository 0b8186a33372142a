"""Durable nodes whose disks fail while they run: what a driver does then, in virtual time.

A step that cannot be written down never was: the node goes back to what its log says, its links begin anew,
and it tries now and then whether it can write again; meanwhile its client is refused. A node whose sync
failed cannot know what it has: it goes down as if the power had, and starts again.
"""

from collections.abc import Callable
from random import Random

from thence.core.errors import StorageError
from thence.core.machine import Effect
from thence.replica.replica import Replica
from thence.sim.stores import Stores

PROBE_US = 1_000_000
"""How often a node in trouble tries."""

DOWN_US = (100_000, 3_000_000)
"""How long it takes until somebody starts a node again that stopped."""


class Troubles:
    def __init__(
        self,
        stores: Stores,
        random: Random,
        probe_at: Callable[[int, int], None],
        unlink: Callable[[int], None],
        crash: Callable[[int, int], None],
    ) -> None:
        """`probe_at(at, node)` is what is to come; `unlink(node)` drops its links, `crash(node, until)` ends
        it for a while."""
        self._stores = stores
        self._random = random
        self._probe_at = probe_at
        self._unlink = unlink
        self._crash = crash
        self.nodes: set[int] = set()
        """Those that cannot write at present."""

    def settle(self, node: int, now: int) -> bool:
        """Write a step down; False if it never was."""
        try:
            self._stores.commit(node, now)
        except StorageError:
            self._failed(node, now)
            return False
        return True

    def publish(self, node: int, payload: bytes, now: int) -> list[Effect] | None:
        """The client sends; None if it was refused and may try again."""
        try:
            return self._stores.publish(node, payload, now)
        except StorageError:
            lost = self._stores.broken(node)
            self._failed(node, now)
            return [] if lost else None  # who was not answered does not know

    def probe(self, node: int, replica: Replica, now: int) -> list[Effect]:
        try:
            self._stores.probe(node, now)
        except StorageError:
            self._failed(node, now)
            return []
        self.nodes.discard(node)
        return replica.resume(now)

    def _failed(self, node: int, now: int) -> None:
        if self._stores.broken(node):
            self.nodes.discard(node)
            self._crash(node, now + self._random.randint(*DOWN_US))
            return
        self._stores.roll_back(node, now)
        if node not in self.nodes:
            self.nodes.add(node)
            self._unlink(node)
        self._probe_at(now + PROBE_US, node)

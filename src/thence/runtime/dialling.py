"""Outgoing connections: from an address to a connection that shakes hands."""

import asyncio
from collections.abc import Callable
from typing import Final

from thence.runtime.address import Address
from thence.runtime.door import reason_of
from thence.runtime.handshake import Opener
from thence.runtime.hello import Identity, Introduction, Purpose, draw_nonce
from thence.runtime.link import Connection, End, Owner
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, LinkLimits
from thence.runtime.peer import Peer


class Dialler:
    """What becomes of a connection its owner is told (`Owner`), also where none is made."""

    def __init__(
        self,
        owner: Owner,
        me: Identity,
        instance: bytes,
        secret: bytes,
        admit: Callable[[Introduction], str | None],
        settings: LinkSettings,
        limits: LinkLimits,
        clock: Clock,
    ) -> None:
        """`admit`: see `Opener`."""
        self._owner: Final = owner
        self._me: Final = me
        self._instance: Final = instance
        self._secret: Final = secret
        self._admit: Final = admit
        self._settings: Final = settings
        self._limits: Final = limits
        self._clock: Final = clock
        self._dials: Final[set[asyncio.Task[None]]] = set()

    def dial(self, peer: Peer) -> None:
        mine = Introduction(self._me, peer.name, Purpose.LINK, self._instance, draw_nonce())
        opener = Opener(mine, self._secret, self._admit)
        connection = Connection(self._owner, opener, self._settings, self._limits, self._clock)
        connection.peer_name = peer.name
        attempt = self._connect(connection, peer.address)
        task = asyncio.get_running_loop().create_task(attempt, name=f"dial {peer.name}")
        peer.dialled(connection, task)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def ended(self) -> None:
        """All attempts, once they were called off."""
        await asyncio.gather(*self._dials, return_exceptions=True)

    async def _connect(self, connection: Connection, address: Address) -> None:
        try:
            try:
                await self._connect_to(connection, address)
            except (OSError, UnicodeError) as error:  # the latter: what the resolver says of some names
                connection.end(End.LOST, f"cannot reach {address}: {reason_of(error)}")
        except Exception as error:
            self._owner.stops(error)

    async def _connect_to(self, connection: Connection, address: Address) -> None:
        async with asyncio.timeout(self._settings.connect_timeout_us / 1_000_000):
            await asyncio.get_running_loop().create_connection(lambda: connection, *address)

"""Addresses to join, asked by a process that is in its group already: after a start with data, until a member
answers, and for as long as it has no neighbour. Its folder may know no process any more that is still there,
and two groups that began apart, each without the other's addresses, become one.

Newcomers have asked before they began: `runtime.discovery`.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import PeerError
from thence.runtime.address import Address
from thence.runtime.discovery import put_question
from thence.runtime.election import Open
from thence.runtime.handshake import Opener
from thence.runtime.hello import Identity, Introduction, Purpose, draw_instance, draw_nonce
from thence.runtime.listening import Connections
from thence.runtime.pacing import LinkLimits, upper_half_us

if TYPE_CHECKING:
    from thence.runtime.node import Node

AGAIN_US: Final = 5_000_000


class ContactSearch:
    """`has_asked`: a newcomer has. `is_alone`: has this process no neighbour? `meet`: a member, and where."""

    def __init__(
        self, node: "Node", has_asked: bool, is_alone: Callable[[], bool], meet: Callable[[str, str], None]
    ) -> None:
        self._node: Final = node
        self._has_heard = has_asked
        self._is_alone: Final = is_alone
        self._meet: Final = meet
        self._connections: Final = Connections()
        self._random: Final = Random(os.urandom(16))
        self._instance: Final = draw_instance()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._node.settings.join:
            self._task = asyncio.get_running_loop().create_task(self._ask_on(), name="contacts")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._connections.end_all("this node stops", LinkLimits().drain_us)

    async def _ask_on(self) -> None:
        try:
            while True:
                if self._is_alone() or not self._has_heard:
                    await asyncio.gather(*map(self._ask, self._node.settings.join))
                await asyncio.sleep(upper_half_us(AGAIN_US, self._random) / 1_000_000)
        except Exception as error:  # a bug must not end a task unheard
            self._node.running.stops(error)

    async def _ask(self, address: Address) -> None:
        settings = self._node.settings
        me = Identity(settings.cluster, settings.name, b"", 0)
        opener = Opener(
            Introduction(me, "", Purpose.ASK, self._instance, draw_nonce()), settings.secret, lambda _: None
        )
        with suppress(OSError, UnicodeError, PeerError):  # it is asked again
            answer = await put_question(
                opener, address, self._connections, settings.links, LinkLimits(), self._node.clock
            )
            if opener.peer is not None and isinstance(answer, Open):
                self._has_heard = True
                name = opener.peer.identity.name
                self._meet(name, str(dict(answer.members).get(name, address)))

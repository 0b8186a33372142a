"""Finding the group: for a node that was told where to ask and has no data yet.

The questions travel over the handshake of links, so only nodes that know the secret ask or answer. Which one
founds is decided in groups.py; this asks round after round, answers others meanwhile, says what it waits for,
and gives the address back when it is done: links listen there next.

Invariant: a node founds at most one group, and joins none that has another process of its name.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from thence.core.errors import PeerError, UsageError, stopper
from thence.runtime.address import Address
from thence.runtime.door import reason_of
from thence.runtime.election import Answer, FounderElection, Open, Seeking, put_answer, take_answer
from thence.runtime.handshake import Acceptor, HandshakePolicy, Opener
from thence.runtime.hello import Identity, Introduction, Purpose, draw_instance, draw_nonce
from thence.runtime.link import Connection, End
from thence.runtime.listening import Connections, Listener, Log
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, LinkLimits, upper_half_us

ROUND_US: Final = 500_000
"""Between two rounds: people start nodes by hand and watch; a question costs a few packets."""
AGAIN_US: Final = 10_000_000
"""After so long, what is still waited for is said again."""
PATIENCE_US: Final = 30_000_000
"""Machines that lost their power together come up one after another."""
AT_ONCE: Final = 32
"""Questions that are open at the same time."""


async def find_group(
    me: Identity,
    my_address: Address,
    join: Sequence[Address],
    *,
    secret: bytes,
    settings: LinkSettings,
    random: Random,
    clock: Clock,
    log: Log,
    limits: LinkLimits | None = None,
    round_us: int = ROUND_US,
    keeps: int = 0,
    patience_us: int = PATIENCE_US,
    tell: Callable[[list[str]], None] = lambda _: None,
    advertise: Address | None = None,
) -> Open:
    """The members of a group that may be contacts of this node; itself alone, if it is to found one.
    `advertise`: where others reach it, if that is not where it listens.
    `keeps`: see `election.Seeking`; one that keeps something does not wait for the absent for longer than
    `patience_us`. `tell` is told what is waited for. `UsageError`: it cannot succeed."""
    me.check()
    search = _Search(
        me, advertise or my_address, join, secret, settings, limits or LinkLimits(), clock, log, keeps
    )
    search.hasty_at = clock() + patience_us
    await search.listener.start(my_address)
    try:
        while True:
            found = await search.round()
            if found is not None:
                return found
            tell(search.obstacles)
            await asyncio.sleep(upper_half_us(round_us, random) / 1_000_000)
    finally:
        await search.close()


class _SelfError(PeerError):
    """The address leads back to this node."""


class _Question:
    """One connection that asks (`link.Owner`)."""

    __slots__ = ("_connections", "result")

    def __init__(self, connections: Connections) -> None:
        self._connections: Final = connections
        self.result: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def connection_open(self, connection: Connection) -> None:
        self._connections.add(connection)

    def connection_up(self, connection: Connection, now: int) -> None:  # noqa: ARG002
        answer = connection.handshake.answer if isinstance(connection.handshake, Opener) else None
        if not self.result.done():
            try:
                self.result.set_result(take_answer(answer or b""))
            except PeerError as error:
                self.result.set_exception(error)
        connection.end(End.CLOSED, "answered")

    def connection_packets(self, connection: Connection, packets: list[bytes], now: int) -> None:  # noqa: ARG002
        raise PeerError("packets from one that was only asked")

    def connection_down(self, connection: Connection, end: End, why: str) -> None:  # noqa: ARG002
        if not self.result.done():
            self.result.set_exception(PeerError(why))

    def connection_gone(self, connection: Connection) -> None:
        self._connections.gone(connection)

    def stops(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(stopper(error))


async def put_question(
    opener: Opener,
    address: Address,
    connections: Connections,
    settings: LinkSettings,
    limits: LinkLimits,
    clock: Clock,
) -> Answer:
    """What is answered at an address; `opener` knows by which node. `OSError`, `PeerError`: nothing is."""
    question = _Question(connections)
    connection = Connection(question, opener, settings, limits, clock)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.connect_timeout_us / 1_000_000):
            await loop.create_connection(lambda: connection, *address)
        return await question.result
    finally:
        connection.abort()
        if question.result.done() and not question.result.cancelled():
            question.result.exception()  # looked at, whatever was cancelled meanwhile


class _Search:
    """Asks and, as the owner of what comes in, answers."""

    def __init__(
        self,
        me: Identity,
        my_address: Address,
        join: Sequence[Address],
        secret: bytes,
        settings: LinkSettings,
        limits: LinkLimits,
        clock: Clock,
        log: Log,
        keeps: int,
    ) -> None:
        self._keeps: Final = keeps
        self.hasty_at = 0
        self.obstacles: list[str] = []
        self._me: Final = me
        self._address: Final = my_address
        self._join: Final = tuple(join)
        self._secret: Final = secret
        self._settings: Final = settings
        self._limits: Final = limits
        self._clock: Final = clock
        self._log: Final = log
        self._instance: Final = draw_instance()
        self._connections: Final = Connections()
        self._has_namesake = False
        """Another process with this name was met, in either role: both must stop, neither has data yet."""
        self._bug: Exception | None = None
        self._told: tuple[list[str], int] = ([], 0)
        judge = HandshakePolicy(self._expects, self._admit, self._answer)
        self.listener: Final = Listener(me, self._instance, secret, judge, self, settings, limits, clock, log)

    async def close(self) -> None:
        await self.listener.stop()
        await self._connections.end_all("the search is over", self._limits.drain_us)

    # Asking.

    async def round(self) -> Open | None:
        hasty = self._clock() >= self.hasty_at
        survey = FounderElection(self._me.name, self._address, self._join, self._keeps, hasty)
        while queue := survey.to_ask():
            for start in range(0, len(queue), AT_ONCE):
                some = queue[start : start + AT_ONCE]
                await asyncio.gather(*[self._inquire(survey, address) for address in some])
        if self._has_namesake:
            raise UsageError(f"another node is called {self._me.name} too: every node needs its own name")
        if self._bug is not None:
            raise stopper(self._bug)
        found = survey.verdict()
        if found is None:
            self.obstacles = survey.obstacles()
            self._tell(self.obstacles)
        return found

    async def _inquire(self, survey: FounderElection, address: Address) -> None:
        try:
            survey.heard(address, await self._ask(address))
        except _SelfError:
            survey.is_me(address)
        except (OSError, UnicodeError) as error:
            survey.missed(address, reason_of(error))
        except PeerError as error:
            survey.missed(address, str(error))

    async def _ask(self, address: Address) -> Answer:
        mine = Introduction(self._me, "", Purpose.ASK, self._instance, draw_nonce())
        opener = Opener(mine, self._secret, lambda _: None)
        try:
            return await put_question(
                opener, address, self._connections, self._settings, self._limits, self._clock
            )
        except PeerError:
            self._notice_namesake(opener, address)
            raise

    def _notice_namesake(self, opener: Opener, address: Address) -> None:
        """Both know by now which process the other is: it has refused because of the name."""
        peer = opener.peer
        if peer is None or peer.identity.name != self._me.name:
            return
        if peer.instance == self._instance:
            raise _SelfError("this is the one that asks")
        self._has_namesake = True
        self._log.warn("another node has this name", name=self._me.name, address=address)

    def _tell(self, obstacles: list[str]) -> None:
        """What is waited for: when it changes, and now and then."""
        before, when = self._told
        now = self._clock()
        if obstacles != before or now - when >= AGAIN_US:
            self._told = (obstacles, now)
            for obstacle in obstacles:
                self._log.info("no group yet", waiting_for=obstacle)

    # Answering.

    def _expects(self, hello: Introduction) -> str | None:
        return None if hello.aim is Purpose.ASK else f"{self._me.name} is not a member of a group yet"

    def _admit(self, hello: Introduction, host: str) -> str | None:  # noqa: ARG002
        if hello.identity.name != self._me.name:
            return None
        self._has_namesake = self._has_namesake or hello.instance != self._instance
        return f"two nodes are called {self._me.name}"

    def _answer(self, hello: Introduction) -> bytes:  # noqa: ARG002
        return put_answer(Seeking(self._me.name, self._address, self._join, self._keeps))

    # What happens to askers (`link.Owner`).

    def connection_open(self, connection: Connection) -> None:
        self._connections.add(connection)

    def connection_up(self, connection: Connection, now: int) -> None:  # noqa: ARG002
        self.listener.forget(connection)
        connection.end(End.CLOSED, "asked and answered")

    def connection_packets(self, connection: Connection, packets: list[bytes], now: int) -> None:  # noqa: ARG002
        raise PeerError("packets from one that only asked")

    def connection_down(self, connection: Connection, end: End, why: str) -> None:
        was_stranger = self.listener.forget(connection)
        handshake = connection.handshake
        hello = handshake.hello if isinstance(handshake, Acceptor) else None
        itself = hello is not None and hello.instance == self._instance
        if was_stranger and not itself:
            self.listener.tell(connection, end, why)

    def connection_gone(self, connection: Connection) -> None:
        self._connections.gone(connection)

    def stops(self, error: Exception) -> None:
        self._bug = self._bug or error

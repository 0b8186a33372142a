"""A program: a guest that stays. It knows the secret, links to every member, never joins, and lies.

    python -m thence.lab.chaos.guest SEED CLUSTER SECRET-FILE NAME=ADDRESS ...

What it says is well-formed and untrue in who speaks, of which member and how much, as in the simulator
(`sim/groups_lies.py`). Members cut it off for that, and it comes again. It ends when it is killed.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from thence.core.group_codec import encode
from thence.core.groups import (
    NOBODY_YET,
    OPERATION,
    Data,
    Farewell,
    Flow,
    GroupPacket,
    JoinRequest,
    NamedMessage,
    Notice,
    Offer,
    Piece,
    Receipt,
    Running,
    process_of,
)
from thence.runtime.address import Address, parse_address
from thence.runtime.hello import Identity, Introduction
from thence.runtime.open_links import OpenLinks
from thence.runtime.options import LinkSettings
from thence.runtime.running import wall_clock
from thence.sim.groups import GUEST
from thence.sim.groups_lies import Liar

EVERY_S: Final = 0.05


def command(seed: int, cluster: str, secret: Path, members: Mapping[str, Address]) -> list[str]:
    where = [f"{name}={address}" for name, address in members.items()]
    return [sys.executable, "-m", "thence.lab.chaos.guest", str(seed), cluster, str(secret), *where]


class Silent:
    """What its links would say to people."""

    def info(self, event: str, **fields: object) -> None:
        """Nothing."""

    def warn(self, event: str, **fields: object) -> None:
        """Nothing."""


class ChaosGuest(Liar):
    """`links.Handler`."""

    def __init__(self, seed: int, cluster: str, secret: bytes, members: Mapping[str, Address]) -> None:
        random = self._chance = Random(seed)
        super().__init__(random, [*members, GUEST])
        identity = Identity(cluster, GUEST, random.randbytes(16), 1)
        self._members: Final = members
        self._up: set[str] = set()
        self.cut_off = 0
        """How often a member had enough of it."""
        self._links: Final = OpenLinks(
            identity, secret, Address("127.0.0.1", 0), LinkSettings(), self, random, wall_clock(), Silent(),
            self._answer,
        )  # fmt: skip

    async def run(self) -> None:
        await self._links.start()
        for name, address in self._members.items():
            self._links.know(name, address, at_once=True)
        while True:
            await asyncio.sleep(EVERY_S)
            if self._up:
                self._links.write(self._chance.choice(sorted(self._up)), [self._lie()])

    async def close(self) -> None:
        await self._links.close()

    def _lie(self) -> bytes:
        """Nothing that a correct process could say of itself: to be let in and not to come, again and again,
        holds evictions up, and a notice makes a member return."""
        while True:
            lie = self.lie(self._chance.choice(self._truths()))
            source = lie.joiner if isinstance(lie, JoinRequest) else getattr(lie, "source", "")
            if not (isinstance(lie, JoinRequest | Notice) and process_of(source) == GUEST):
                return encode(lie)

    def _truths(self) -> list[GroupPacket]:
        """What members say to each other, more or less."""
        one, other = self._chance.sample(sorted(self._members), 2)
        running = Running(one, one, "", 1)
        return [
            Receipt(one, dict.fromkeys(self._members, 3), (), (), running, other, 1),
            Receipt(one, {}, (other,), (), running),
            JoinRequest(GUEST, other, NOBODY_YET, Running(GUEST, "", GUEST, 1), 0, 0, "127.0.0.1:9"),
            Data(one, other, (NamedMessage(one, 3, (), bytes((OPERATION,))),)),
            Flow(self._chance.randrange(8), 0, (one, other), (b"whatever",)),
            Offer(one, other),
            Piece(one, other, 1, 0, 1, b"x"),
            Notice(one, other, (one,), 0),
            Farewell(one, other, 7),
        ]

    def _answer(self, hello: Introduction) -> bytes:
        del hello
        return b""

    def admit(self, peer: Identity) -> str | None:
        del peer
        return None

    def link_up(self, peer: str, now: int) -> None:
        del now
        self._up.add(peer)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        """It does not listen."""

    def link_down(self, peer: str, why: str, now: int) -> None:
        del now
        self.cut_off += "cut off" in why
        self._up.discard(peer)

    def link_bug(self, error: Exception) -> None:
        """The guest ends, and the round says so: guests are there to the end."""
        raise error


def run(arguments: Sequence[str]) -> None:
    seed, cluster, secret, *where = arguments
    pairs = [each.split("=", 1) for each in where]
    members = {name: parse_address(address) for name, address in pairs}
    key = Path(secret).read_bytes().strip()
    asyncio.run(ChaosGuest(int(seed), cluster, key, members).run())


if __name__ == "__main__":
    run(sys.argv[1:])

"""Three people keep a ledger together, each with a node of their own; one of their programs dies half way.

A program that writes down the position of an event together with what it made of it sees every message
exactly once, however it ended. Here all three run in one process, on this machine; in three processes, or on
three machines, nothing changes but the addresses.
"""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import thence

NAMES = ("alice", "bob", "carol")


def free_addresses() -> dict[str, str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
    addresses = {name: f"127.0.0.1:{s.getsockname()[1]}" for name, s in zip(NAMES, sockets, strict=True)}
    for each in sockets:
        each.close()
    return addresses


async def next_entry(events: AsyncIterator[thence.Event]) -> thence.Delivered:
    """The next message of another member; announcements of stability are passed over."""
    async for event in events:
        if isinstance(event, thence.Delivered):
            return event
    raise RuntimeError("the node was closed")


async def main(folder: Path) -> None:
    members = free_addresses()

    def open_node(name: str) -> thence.Node:
        settings = {"profile": "local", "log_level": "error"}
        return thence.open(name, members=members, data=folder / name, settings=settings)

    async with open_node("alice") as alice, open_node("bob") as bob:
        async with open_node("carol") as carol:
            await carol.broadcast(b"carol tips 5")
            await alice.broadcast(b"alice pays 30")

            # bob answers once he has seen both; his answer follows from them, they not from each other.
            at_bob = bob.events()
            seen = sorted([await next_entry(at_bob), await next_entry(at_bob)], key=lambda one: one.origin)
            returned = await bob.broadcast(b"bob returns 10")
            print("bob saw:", ", ".join(entry.payload.decode() for entry in seen))
            one, other = [bob.tag(entry.origin, entry.seq) for entry in seen]
            print("  both before his answer:", one.before(returned) and other.before(returned))
            print("  concurrent with each other:", one.concurrent(other))

            at_carol = carol.events()
            first = await next_entry(at_carol)
            ledger, position = [first.payload.decode()], first.position  # written down, both together
            second = await next_entry(at_carol)
            print("carol wrote down:", ledger)
            print("carol saw, and died before she wrote it down:", second.payload.decode())

        more = await alice.broadcast(b"alice pays 7")  # carol is away
        await next_entry(at_bob)
        await bob.broadcast(b"bob pays 8")

        async with open_node("carol") as carol:
            at_carol = carol.events(after=position)
            while len(ledger) < 4:
                ledger.append((await next_entry(at_carol)).payload.decode())
            print("carol, back again:", ledger)
            # A message is delivered where a program takes it; alice has not looked at hers yet.
            at_alice = alice.events()
            print("alice reads:", [(await next_entry(at_alice)).payload.decode() for _ in range(3)][1:])
            await alice.until_stable(more)
            print("all members have message {1} of {0}".format(*alice.name_of(more)))


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))

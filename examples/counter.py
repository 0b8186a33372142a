"""A counter that is counted up at several places: members come and go, and no count is lost.

The program is a state: every operation is applied to it, its own included. A joiner begins from the state of
the member that lets it in, and a member that comes back begins from its last checkpoint.
"""

import asyncio
import socket
import tempfile
from pathlib import Path

import thence


class Counter:
    """How often each place has counted."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def apply(self, event: thence.Delivered) -> None:
        place = event.payload.decode()
        self.counts[place] = self.counts.get(place, 0) + 1

    def state(self) -> bytes:
        return " ".join(f"{place}={count}" for place, count in sorted(self.counts.items())).encode()

    def install(self, state: bytes) -> None:
        pairs = [word.split("=") for word in state.decode().split()]
        self.counts = {place: int(count) for place, count in pairs}

    def __str__(self) -> str:
        return self.state().decode() or "nothing"


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


async def main(folder: Path) -> None:
    door = free_address()

    def open_node(name: str, counter: Counter, listen: str, *join: str) -> thence.Node:
        settings = {"profile": "local", "log_level": "error"}
        return thence.open(
            name, listen=listen, join=join, data=folder / name, application=counter, settings=settings
        )

    entrance, garden, roof = Counter(), Counter(), Counter()
    async with open_node("entrance", entrance, door) as first:
        for _ in range(3):
            await first.broadcast(b"entrance")
        async with open_node("garden", garden, free_address(), door) as second:
            print("garden begins with", garden)
            await second.until_stable(await second.broadcast(b"garden"))
            print("entrance has", entrance)

        await first.broadcast(b"entrance")  # garden is closed for the night, and stays a member
        garden = Counter()
        async with open_node("garden", garden, free_address()) as second:
            await first.until_stable(await first.broadcast(b"entrance"))
            print("garden, open again, has", garden)
            async with open_node("roof", roof, free_address(), door) as third:
                await third.until_stable(await third.broadcast(b"roof"))
                print("members:", ", ".join(third.members))
                print("roof leaves in order:", await third.leave())
            await second.until_stable(await second.broadcast(b"garden"))
            print("members:", ", ".join(second.members))
            print("entrance and garden have the same:", entrance.counts == garden.counts, entrance)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))

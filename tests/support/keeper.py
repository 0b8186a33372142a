"""A program that keeps what it was told in a file, together with the position that it has come to.

    python keeper.py NAME DATA FILE MEMBER=ADDRESS…

A line of the file is a message: position, origin, counter, payload. To write it is to have seen the message;
only then does the program answer. It may be killed at any moment.
"""

import asyncio
import os
import sys
from pathlib import Path

import thence
from support.open_nodes import QUICK
from thence.replica.events import Delivered


def kept(file: Path) -> list[tuple[int, str, int, str]]:
    """What the file says; a torn last line was never written."""
    if not file.exists():
        return []
    *whole, _ = file.read_text().split("\n")
    lines = [line.split(" ", 3) for line in whole]
    return [(int(position), origin, int(seq), payload) for position, origin, seq, payload in lines]


async def main(name: str, data: Path, file: Path, members: dict[str, str]) -> None:
    seen = kept(file)
    text = "".join(f"{position} {origin} {seq} {payload}\n" for position, origin, seq, payload in seen)
    file.write_text(text)  # without what was torn
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    async with thence.open(name, listen=members[name], members=members, data=data, settings=QUICK) as node:
        async for event in node.events(after=seen[-1][0] if seen else 0):
            if isinstance(event, Delivered):
                line = f"{event.position} {event.origin} {event.seq} {event.payload.decode()}\n"
                os.write(descriptor, line.encode())
                await node.broadcast(b"saw " + event.payload)


def run(arguments: list[str]) -> None:
    who, where, what, *others = arguments
    asyncio.run(main(who, Path(where), Path(what), dict(other.split("=") for other in others)))


if __name__ == "__main__":
    run(sys.argv[1:])

"""`support.keeper` in a changing group: where there is no position yet, the first is written down first.

python changing_keeper.py NAME LISTEN JOIN DATA FILE
"""

import asyncio
import os
import sys
from pathlib import Path

import thence
from support.changing import SWIFT
from support.keeper import kept
from thence.replica.events import Delivered


async def main(name: str, listen: str, join: str, data: Path, file: Path) -> None:
    seen = kept(file)
    text = "".join(f"{position} {origin} {seq} {payload}\n" for position, origin, seq, payload in seen)
    file.write_text(text)  # without what was torn
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    async with thence.open(name, listen=listen, join=[join], data=data, settings=SWIFT) as node:
        if not seen:
            os.write(descriptor, f"{node.position} - 0 begins\n".encode())
        async for event in node.events(after=seen[-1][0] if seen else node.position):
            if isinstance(event, Delivered):
                line = f"{event.position} {event.origin} {event.seq} {event.payload.decode()}\n"
                os.write(descriptor, line.encode())
                await node.broadcast(b"saw " + event.payload)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5])))

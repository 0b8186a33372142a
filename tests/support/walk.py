"""The calls of one write, counted: `PYTHONPATH=tests python -m support.walk`.

Three nodes of a closed group in one process; one broadcasts 64 messages at once, programs of all read
`events()`. Counted are calls of functions of thence, per message, by what they come from.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

import thence
from support.live_links import free_addresses
from thence.runtime.application import OpenNode

MESSAGES = 64
SETTLES_S = 1.0
"""By then everything is stable, and told."""

STAGES = {
    "OpenNode.broadcast": "the call, at the sender",
    "CallBatch._turn_over": "its step",
    "Connection.buffer_updated": "what comes over links: at each of two receivers",
    "Alarm._rings": "timers: receipts and stability, at each of three",
    "Events.__anext__": "the reader's own, at each of three",
}
SHARED = {"Connection.buffer_updated": 2, "Alarm._rings": 3, "Events.__anext__": 3}


def name_of(frame: FrameType) -> str | None:
    inside = frame.f_code.co_filename.partition("/src/thence/")[2]
    return f"{inside}:{frame.f_code.co_qualname}" if inside else None


class Count:
    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.functions: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (name := name_of(frame)) is None:
            return
        self.functions.add(name)
        outermost, at = name, frame.f_back
        while at is not None:
            outermost, at = name_of(at) or outermost, at.f_back
        self.calls[outermost.partition(":")[2]] += 1


async def counted(folder: Path) -> Count:
    members = {name: str(at) for name, at in zip("abc", free_addresses(3), strict=True)}
    quiet = {"http": "none", "profile": "local", "log_level": "error"}
    a, b, c = [thence.open(name, members=members, data=folder / name, settings=quiet) for name in members]

    async def read(node: OpenNode) -> None:
        async for _ in node.events():
            pass

    async with a, b, c:
        readers = [asyncio.ensure_future(read(node)) for node in (a, b, c)]
        await a.until_stable(await a.broadcast(b"they are linked"))
        await asyncio.sleep(SETTLES_S)
        count = Count()
        sys.setprofile(count)
        await asyncio.gather(*[a.broadcast(bytes(64)) for _ in range(MESSAGES)])
        await asyncio.sleep(SETTLES_S)
        sys.setprofile(None)
        for reader in readers:
            reader.cancel()
    return count


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        count = asyncio.run(counted(Path(folder)))
    files = {name.partition(":")[0] for name in count.functions}
    for root, says in STAGES.items():
        print(f"{count.calls[root] / MESSAGES / SHARED.get(root, 1):6.1f}  {says}")
    print(f"{len(count.functions)} functions in {len(files)} files")


if __name__ == "__main__":
    main()

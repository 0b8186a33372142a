"""What the stages of a turn cost: `PYTHONPATH=tests python -m support.turn_stages [OPERATIONS]`.

Three nodes of a closed group in one process, uvloop, 64-byte payloads, no trace, sync everysec; programs are
states. One function is timed at a time, with all that it calls: microseconds that a quarter of some hundred
turns stay below, so that a busy machine matters little. Caches are warm, as they are not between processes.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import uvloop

import thence
from support.live_links import free_addresses
from thence.runtime.application import OpenNode

TURNS = 500

WRITER = {
    "the call": "runtime.application:OpenNode.broadcast_nowait",
    "the step": "runtime.batching:CallBatch.settle",
    "  the message: all of it": "replica.group.member.member:Member.operations_of",
    "    dot and context": "order.graph:GraphTagger.tag",
    "    bytes": "core.codec:Codec.encode_message",
    "    log: block": "oplog.log:OpLog.append",
    "    channels": "replica.group.channel.links:GroupLinks.send",
    "    delivery, with tag and window": "replica.group.member.delivery:Delivery.deliver",
    "  flows per peer": "replica.group.channel.links:GroupLinks.gather",
    "  log: write": "oplog.log:OpLog.commit",
    "    of it the file": "runtime.files:DiskFiles.write",
    "  packets: bytes and sending": "runtime.driver:send_each",
    "    of it the sockets": "runtime.link:Connection.send",
    "  hand-over": "runtime.program:Program.tell",
    "  the node, after the step": "runtime.node:Node.stepped",
    "  next wake-up": "replica.group.process.node:GroupNode.wake_at",
}
RECEIVER = {
    "a read": "runtime.link:Connection.data_received",
    "  frames": "runtime.frames:Framer.feed",
    "  the step": "replica.steps:Steps.receive",
    "    message: from bytes": "replica.group.channel.directions:Incoming.read",
    "    order": "replica.group.member.receiving:Receiving.accept",
    "    taken: all of it": "replica.group.process.node:GroupNode.take",
    "      log: block": "oplog.log:OpLog.append",
    "      delivery, with tag and window": "replica.group.member.delivery:Delivery.deliver",
    "      receipts": "replica.group.member.member:Member.has_taken",
    "    log: write": "oplog.log:OpLog.commit",
    "      of it the file": "runtime.files:DiskFiles.write",
    "  hand-over, the node, next wake-up": "runtime.driver:Driver._carry_out",
}


class Counting:
    """A state that counts."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, event: object) -> None:
        del event
        self.count += 1

    def apply_batch(self, origin: str, first_seq: int, ops: list[bytes], tag: object) -> None:
        del origin, first_seq, tag
        self.count += len(ops)

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""


class Timed:
    """What a function has taken while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.took_ns = 0


@contextmanager
def timed(place: str) -> Iterator[Timed]:
    module, name = place.split(":")
    owner: Any = import_module(f"thence.{module}")
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    before, watch = vars(owner)[last], Timed()
    act: Any = before.fget if isinstance(before, property) else before

    def watched(*words: Any) -> object:
        if not watch.on:
            return act(*words)
        begun = time.perf_counter_ns()
        try:
            return act(*words)
        finally:
            watch.took_ns += time.perf_counter_ns() - begun

    setattr(owner, last, property(watched) if isinstance(before, property) else watched)
    try:
        yield watch
    finally:
        setattr(owner, last, before)


async def measured(place: str, writes: bool, operations: int, folder: Path) -> float:
    """Microseconds in a turn of the writer, or in the reads of one receiver that it leads to."""
    members = {name: str(at) for name, at in zip("abc", free_addresses(3), strict=True)}
    quiet = {"http": "none", "profile": "local", "log_level": "error"}
    programs = [Counting() for _ in members]
    with timed(place) as watch:
        nodes: list[OpenNode] = [
            thence.open(name, members=members, data=folder / name, application=program, settings=quiet)
            for name, program in zip(members, programs, strict=True)
        ]
        found = list[int]()
        async with nodes[0] as a, nodes[1], nodes[2]:
            await a.until_stable(await a.broadcast(b"they are linked"))
            for _ in range(TURNS):
                goal = sum([program.count for program in programs]) + 3 * operations
                watch.took_ns, watch.on = 0, writes
                for _ in range(operations):
                    a.broadcast_nowait(bytes(64))
                a._host.running.settle()
                watch.on = not writes
                while sum([program.count for program in programs]) < goal:
                    await asyncio.sleep(0)
                watch.on = False
                found.append(watch.took_ns // (1 if writes else 2))
    return sorted(found)[TURNS // 4] / 1e3


def main() -> None:
    operations = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for who, stages in (("writer", WRITER), ("receiver", RECEIVER)):
        print(f"{who}, {operations} in a turn")
        for says, place in stages.items():
            with tempfile.TemporaryDirectory() as folder:
                took_us = uvloop.run(measured(place, who == "writer", operations, Path(folder)))
            print(f"{took_us:7.1f}  {says}", flush=True)


if __name__ == "__main__":
    main()

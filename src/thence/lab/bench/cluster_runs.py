"""What an operation costs by how many are sent in one turn of the loop: part `runs` of `bench cluster`.

    python -m thence.lab.bench.cluster_runs NAME MEMBERS DATA PER_TURN OPERATIONS

Three programs with a node inside, of a closed group, sync everysec, 64-byte payloads. The first sends so many
operations with `broadcast_nowait` and lets the loop turn; the others take them with `apply_batch`. Each
measures the CPU time of its process from the first operation to the last.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import uvloop

import thence
from thence.lab.bench.cluster_processes import together
from thence.lab.bench.record import Record
from thence.local.layout import open_layout
from thence.local.ports import free_ports
from thence.replica.events import Delivered
from thence.replica.life_tag import LifeTag

PAYLOAD: Final = bytes(64)
PER_TURN: Final = (64, 16, 4, 1)
NODES: Final = 3
FLOW_BYTES: Final = 46
"""Of a turn, beside its operations: what frames, packet, message and record add."""
HEAD_BYTES: Final = 2
"""Before an operation of a run."""
PATIENCE_S: Final = 60.0


class Counting:
    """The program: how many operations were applied, and when its process had used how much CPU time."""

    def __init__(self, total: int) -> None:
        self._total: Final = total
        self.count = 0
        self.begun_s = 0.0
        self.ended_s = 0.0
        self.done: Final = asyncio.Event()

    def apply(self, event: Delivered) -> None:
        del event
        self._count(1)

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: LifeTag) -> None:
        del origin, first_seq, tag
        self._count(len(ops))

    def _count(self, count: int) -> None:
        if not self.count:
            self.begun_s = time.process_time()
        self.count += count
        if self.count >= self._total:
            self.ended_s = time.process_time()
            self.done.set()

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""


async def measure(name: str, members: dict[str, str], data: str, per_turn: int, total: int) -> float:
    """Microseconds of CPU time per operation."""
    program = Counting(total)
    settings = {"profile": "local", "http": "none"}
    async with (
        asyncio.timeout(PATIENCE_S),
        thence.open(name, members=members, data=data, application=program, settings=settings) as node,
    ):
        while not _all_there(node):
            await asyncio.sleep(0.01)
        if name == min(members):
            left = total
            while left:
                await node.until_room()
                for _ in range(min(per_turn, left, node.room)):
                    node.broadcast_nowait(PAYLOAD)
                    left -= 1
                await asyncio.sleep(0)
        await program.done.wait()
        await asyncio.sleep(1.0)  # others still need this node
    return 1e6 * (program.ended_s - program.begun_s) / total


def _all_there(node: thence.Node) -> bool:
    members = node.status().members
    return len(members) == NODES and all(member.link != "down" for member in members)


def runs(folder: Path, turns: int, total: int) -> Iterator[Record | str]:
    """CPU time per operation of the writer and of a receiver. Baseline: the floor (`cluster_runs_bare`), per
    operation."""
    found: dict[int, list[list[float]]] = {per_turn: [] for per_turn in PER_TURN}
    floors: dict[int, list[list[float]]] = {per_turn: [] for per_turn in PER_TURN}
    for turn in range(1, turns + 1):
        for per_turn in PER_TURN:
            yield f"{per_turn} operations in a turn, turn {turn} of {turns}"
            layout = open_layout(folder / f"runs-{turn}-{per_turn}", NODES)
            count = total if per_turn > 1 else max(1, total // 8)
            calls = [
                (name, layout.members, folder / f"data-{turn}-{per_turn}-{name}", per_turn, count)
                for name in layout.names
            ]
            told = together("thence.lab.bench.cluster_runs", calls, folder / "runs", PATIENCE_S)
            found[per_turn].append([float(each["cpu_us"]) for each in told])
            floors[per_turn].append([cost / per_turn for cost in _floor(folder, per_turn, total // 8)])
    for per_turn in PER_TURN:
        writer, receiver = _of_each(found[per_turn])
        least = _of_each(floors[per_turn])
        yield Record(f"cluster.runs.{per_turn}.writer", writer, "us", least[0])
        yield Record(f"cluster.runs.{per_turn}.receiver", receiver, "us", least[1])


def _of_each(turns: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The writer's and a receiver's."""
    return median(each[0] for each in turns), median(max(each[1:]) for each in turns)


def _floor(folder: Path, per_turn: int, turns: int) -> list[float]:
    """What a turn with so many operations costs programs that only write as many bytes."""
    first = free_ports(NODES - 1)
    ports = ",".join([str(first + at) for at in range(NODES - 1)])
    size = FLOW_BYTES + per_turn * (len(PAYLOAD) + HEAD_BYTES)
    calls = [(ports, me, size, max(1, turns), folder / f"bare-{me}") for me in range(NODES)]
    told = together("thence.lab.bench.cluster_runs_bare", calls, folder / "runs", PATIENCE_S)
    return [float(each["cpu_us"]) for each in told]


def main() -> None:
    name, named, data, per_turn, total = sys.argv[1:]
    members = dict(pair.split("=", 1) for pair in named.split(","))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        cpu_us = runner.run(measure(name, members, data, int(per_turn), int(total)))
    print(json.dumps({"cpu_us": cpu_us}))


if __name__ == "__main__":
    main()

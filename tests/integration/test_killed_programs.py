"""Programs that are killed at any moment, and see every message exactly once all the same."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from support import keeper
from support.changing import Changing, Journal
from support.open_nodes import Group, delivered, run, until

from thence.runtime.application import OpenNode
from thence.runtime.reader import Events

TESTS = Path(keeper.__file__).parents[1]


class Program:
    """`support.keeper`, as often as it takes."""

    def __init__(self, file: Path, *words: str) -> None:
        self.file = file
        self._command = [sys.executable, "-m", *words]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = os.pathsep.join([str(TESTS), *sys.path])
        self._process = subprocess.Popen(
            self._command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
        )

    @property
    def count(self) -> int:
        """Messages in its file, a torn one left out."""
        return self.file.read_bytes().count(b"\n") if self.file.exists() else 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


async def talk(a: OpenNode, count: int, rng: Random) -> None:
    for i in range(count):
        await a.broadcast(b"%d" % i)
        if rng.random() < 0.05:
            await asyncio.sleep(0)


async def answers(events: Events, count: int) -> list[tuple[int, bytes]]:
    """What the program said, up to its answer to the last message."""
    found: list[tuple[int, bytes]] = []
    while not found or found[-1][1] != b"saw %d" % (count - 1):
        [event] = await delivered(events, 1)
        found.append((event.seq, event.payload))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_program_that_keeps_its_position_sees_every_message_once(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    count = 3000

    async def test() -> None:
        group = Group(tmp_path, ["a", "b"])
        file = group.folder / "b.kept"
        members = [f"{member}={address}" for member, address in group.members.items()]
        program = Program(file, "support.keeper", "b", str(group.folder / "b"), str(file), *members)
        try:
            async with group.open("a", settings={"drain_us": 0}) as a:
                said = asyncio.ensure_future(answers(a.events(), count))
                talking = asyncio.ensure_future(talk(a, count, rng))
                for _ in range(4):
                    program.start()
                    enough = min(count, program.count + rng.choice((1, 10, 300, 700)))
                    await until(lambda: program.count >= enough)  # noqa: B023
                    program.kill()
                program.start()
                await until(lambda: program.count >= count)
                await talking
                heard = await said
                program.kill()
        finally:
            program.kill()
        seen = keeper.kept(program.file)
        assert [payload for _, _, _, payload in seen] == [str(i) for i in range(count)]
        assert [seq for _, _, seq, _ in seen] == list(range(1, count + 1))
        assert [seq for seq, _ in heard] == list(range(1, len(heard) + 1)), "a dot was used twice, or never"
        told = [payload for _, payload in heard]
        assert len(told) == len(set(told)), "it answered the same message twice"

    run(test)


@pytest.mark.parametrize("seed", range(2))
def test_so_does_one_in_a_changing_group(tmp_path: Path, seed: int) -> None:
    """What it took, others lack in its receipts until it is in its log: it comes again if that is not so."""
    rng = Random(seed)
    count = 400

    async def test() -> None:
        group = Changing(tmp_path, "ab")
        file = tmp_path / "b.kept"
        words = ["b", group.at["b"], group.at["a"], str(tmp_path / "b"), str(file)]
        program = Program(file, "support.changing_keeper", *words)
        book = Journal()
        try:
            async with group.open("a", application=book, settings={"drain_us": 0}) as a:
                program.start()
                await until(lambda: program.count >= 1)  # it is a member, and has a position
                talking = asyncio.ensure_future(talk(a, count, rng))
                for _ in range(3):
                    enough = min(count, program.count + rng.choice((1, 10, 100)))
                    await until(lambda: program.count >= enough)  # noqa: B023
                    program.kill()
                    program.start()
                await until(lambda: program.count >= count + 1 and f"saw {count - 1}" in book.lines)
                await talking
                program.kill()
        finally:
            program.kill()
        seen = keeper.kept(program.file)[1:]
        assert [payload for _, _, _, payload in seen] == [str(i) for i in range(count)]
        told = [line for line in book.lines if line.startswith("saw")]
        assert len(told) == len(set(told)), "it answered the same message twice"

    run(test)

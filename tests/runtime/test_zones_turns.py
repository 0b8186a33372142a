"""What a turn of the loop costs a process of a topology, counted: `runtime/test_turns.py` for zones."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.open_nodes import Group, run, until

import thence
from thence.runtime.files import DiskFiles
from thence.runtime.link import Connection

ZONES = """
[zones]
office = ["a", "b"]
plant = ["c", "d"]
[routers]
r = ["office", "plant"]
"""
NAMES = ("a", "b", "c", "d", "r")
OPERATIONS = 64


class Counting:
    def __init__(self) -> None:
        self.count = 0

    def apply(self, event: thence.Delivered) -> None:
        del event
        self.count += 1

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""


def test_a_turn_is_one_write_and_one_frame_for_each_link_at_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zones.toml").write_text(ZONES)
    group = Group(tmp_path, NAMES)
    programs = {name: Counting() for name in NAMES[:-1]}

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = {}
            for name in NAMES:
                own: dict[str, Any] = {"application": programs[name]} if name in programs else {}
                nodes[name] = await stack.enter_async_context(
                    group.open(name, order="separator", topology=tmp_path / "zones.toml", **own)
                )
            await nodes["a"].send(b"they are linked")
            await until(lambda: all(program.count == 1 for program in programs.values()))
            log = nodes["a"]._machine.log
            assert log is not None
            owner = {id(node._machine.log.files): name for name, node in nodes.items()}  # type: ignore[union-attr]
            links = {link: name for name, node in nodes.items() for link in _links(node)}
            did = Counter[tuple[str, str]]()
            write, send = DiskFiles.write, Connection.send

            def written(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
                if b"op63" in data:
                    did["write", owner[id(files)]] += 1
                write(files, name, offset, data)

            def sent(connection: Connection, data: bytes) -> None:
                if b"op63" in data:
                    did["send", links[connection]] += 1
                send(connection, data)

            monkeypatch.setattr(DiskFiles, "write", written)
            monkeypatch.setattr(Connection, "send", sent)
            for turn in range(1, 6):
                for number in range(OPERATIONS):
                    nodes["a"].broadcast_nowait(b"op%d" % number)
                assert not did, "nothing leaves before the turn is over"
                await asyncio.sleep(0)
                assert did == {("write", "a"): 1, ("send", "a"): 2}
                wanted = 1 + turn * OPERATIONS
                await until(lambda wanted=wanted: all(each.count == wanted for each in programs.values()))  # type: ignore[misc]
                assert did == {
                    **{("write", name): 1 for name in NAMES}, ("send", "a"): 2, ("send", "r"): 2,
                }, "the gateway passes all of it on at once"  # fmt: skip
                did.clear()

    run(test)


def _links(node: Any) -> set[Connection]:
    return {peer.link for peer in node._host.kind.links._peers.values()}

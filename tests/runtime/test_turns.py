"""What a turn of the loop may cost, counted instead of timed: docs/ARCHITECTURE.md, the walk of one write."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.open_nodes import Group, run, until

from thence import Delivered, Tag
from thence.replica.group.surroundings import OperationRun
from thence.replica.life_tag import LifeTag
from thence.runtime.application import OpenNode
from thence.runtime.driver import Driver
from thence.runtime.files import DiskFiles
from thence.runtime.link import Connection
from thence.runtime.program import _delivered, _of_run

OPERATIONS = 64
PEERS = 2


class Counting:
    """A state that counts."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, event: Delivered) -> None:
        del event
        self.count += 1

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: Tag) -> None:
        del origin, first_seq, tag
        self.count += len(ops)

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path, ["a", "b", "c"])


async def linked(*nodes: OpenNode) -> None:
    """All know each other, and names were told."""
    for node in nodes:
        await node.until_stable(await node.broadcast(b"they are linked"))


def links_of(node: OpenNode) -> set[Connection]:
    kind: Any = node._host.kind
    found = [peer.link for peer in kind.links._peers.values()]
    assert None not in found
    return set(found)


def sent_in_a_turn(node: OpenNode) -> None:
    for number in range(OPERATIONS):
        node.broadcast_nowait(b"op%d" % number)


def test_a_turn_is_one_write_to_the_log_and_one_to_each_peer_when_it_is_over(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        programs = [Counting(), Counting(), Counting()]
        async with (
            group.open("a", application=programs[0]) as a,
            group.open("b", application=programs[1]) as b,
            group.open("c", application=programs[2]) as c,
        ):
            await linked(a, b, c)
            log, links, did = a._machine.log, links_of(a), list[str]()
            assert log is not None
            assert len(links) == PEERS
            write, send = DiskFiles.write, Connection.send

            def written(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
                if files is log.files and b"op0" in data:
                    did.append("write")
                write(files, name, offset, data)

            def sent(connection: Connection, data: bytes) -> None:
                if connection in links and b"op0" in data:
                    did.append("send")
                send(connection, data)

            monkeypatch.setattr(DiskFiles, "write", written)
            monkeypatch.setattr(Connection, "send", sent)
            for _ in range(5):
                sent_in_a_turn(a)
                assert not did, "nothing leaves before the turn is over"
                await asyncio.sleep(0)
                assert did == ["write", *["send"] * PEERS], "and all of it leaves then, written first"
                did.clear()
            await until(lambda: all(program.count >= 5 * OPERATIONS for program in programs))

    run(story)


def test_a_message_sets_no_timer(group: Group) -> None:
    async def story() -> None:
        async with (
            group.open("a", application=Counting()) as a,
            group.open("b", application=Counting()) as b,
            group.open("c", application=Counting()) as c,
        ):
            await linked(a, b, c)
            loop, timers = asyncio.get_running_loop(), list[float]()
            call_later = loop.call_later

            def counted(delay: float, *words: Any, **named: Any) -> asyncio.TimerHandle:
                timers.append(delay)
                return call_later(delay, *words, **named)

            loop.call_later = counted  # type: ignore[method-assign, assignment]
            try:
                for _ in range(50):
                    sent_in_a_turn(a)
                    a._host.running.settle()
            finally:
                loop.call_later = call_later  # type: ignore[method-assign]
            assert len(timers) <= 1, "the receipts' one, for all of them"

    run(story)


class Calls:
    """How many calls of functions of thence there are meanwhile."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        sys.setprofile(self._called)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/src/thence/" in frame.f_code.co_filename:
            self.count += 1


def calls_of_a_turn(group: Group, monkeypatch: pytest.MonkeyPatch, operations: int) -> tuple[float, float]:
    """At the writer, and at each receiver for the read that brings them: the least of several turns."""
    found = list[tuple[int, float]]()

    async def story() -> None:
        programs = [Counting(), Counting(), Counting()]
        async with (
            group.open("a", application=programs[0]) as a,
            group.open("b", application=programs[1]) as b,
            group.open("c", application=programs[2]) as c,
        ):
            await linked(a, b, c)
            read, packets = Calls(), Driver.packets

            def counted(driver: Driver[Any], peer: str, data: Sequence[bytes], now: int) -> None:
                if any(b"op0" in each for each in data):
                    with read:
                        packets(driver, peer, data, now)
                else:
                    packets(driver, peer, data, now)

            monkeypatch.setattr(Driver, "packets", counted)
            for _ in range(8):
                written, read.count = Calls(), 0
                goal = sum([program.count for program in programs]) + 3 * operations
                with written:
                    for number in range(operations):
                        a.broadcast_nowait(b"op%d" % number)
                    a._host.running.settle()
                await until(lambda goal=goal: sum([program.count for program in programs]) == goal)  # type: ignore[misc]
                found.append((written.count, read.count / PEERS))

    run(story)
    return min(each[0] for each in found), min(each[1] for each in found)


def test_a_delivered_operation_of_a_turn_costs_few_calls(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the writer's turn, and of the read that brings it to each receiver."""
    writer, receiver = calls_of_a_turn(group, monkeypatch, OPERATIONS)
    assert writer > OPERATIONS, "they are counted"
    assert (writer + PEERS * receiver) / (3 * OPERATIONS) <= 2.4, "the aim was 15"


def test_a_turn_with_one_operation_costs_few_calls(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, receiver = calls_of_a_turn(group, monkeypatch, 1)
    assert 50 < writer <= 92
    assert 40 < receiver <= 78


def test_operations_of_a_run_are_the_same_one_by_one() -> None:
    tag: Any = object()
    book: Any = object()
    for count in (2, 5):
        payloads = [b"%d" % at for at in range(count)]
        ops = OperationRun("b", 7, payloads, tag, "a", book, 1 << 12, own=False)
        assert _of_run(ops) == [_delivered(one) for one in ops.each()]
        assert [one.position for one in _of_run(ops)] == [(1 << 12) + at + 1 for at in range(count)]
        tags = [one.tag for one in _of_run(ops)]
        assert all(type(each) is LifeTag and each.inner is tag for each in tags)

"""Data folders of version 1 of a tree: its nodes had one log each. With tags they go on as a group."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
from support.open_nodes import Group, delivered, run, until
from support.version1 import found, note_closed, note_policy

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.order.engines import ENGINES
from thence.runtime.address import parse_address
from thence.runtime.folder import OPLOG, DataFolder, is_fixed
from thence.runtime.version1 import FRONTIER

CLUSTER = "thence"
NAMES = ["a", "b", "c"]


class OldFolder:
    """What a node of version 1 has written: messages as they were tagged, and marks of what was taken."""

    def __init__(self, log: OpLog, codec: Codec) -> None:
        self._log = log
        self._codec = codec

    def holds(self, message: Message) -> int:
        return self._log.append(message.dot, self._codec.encode(message))

    def takes(self, message: Message) -> None:
        self._log.mark_taken(self.holds(message))


@contextmanager
def old_folder(group: Group, name: str, order: str) -> Iterator[OldFolder]:
    with DataFolder(group.folder / name) as folder:
        log = folder.open_log(LogSettings(sync="always"), 0)
        log.boot(1, folder.machine_id(), 0)
        note_policy(log, "always")
        members = [(member, parse_address(where)) for member, where in group.members.items()]
        found(log, CLUSTER, name, members)
        log.commit_only()
        log.note(FRONTIER, bytes(3))  # of nothing
        yield OldFolder(log, Codec(len(NAMES), ENGINES[order].stamps_are_dots))
        log.commit_only()
        note_closed(log)
        log.close(0)


def make_folders(group: Group, order: str) -> None:
    """b has not taken the last message, and c does not have it."""
    a, b = (ENGINES[order].tagger(index, len(NAMES)) for index in (0, 1))
    first = a.tag(b"first of a")
    b.took(first)
    answer = b.tag(b"answer of b")
    a.took(answer)
    second = a.tag(b"second of a")
    with old_folder(group, "a", order) as folder:
        folder.holds(first)
        folder.takes(answer)
        folder.holds(second)
    with old_folder(group, "b", order) as folder:
        folder.takes(first)
        folder.holds(answer)
        folder.holds(second)
    with old_folder(group, "c", order) as folder:
        folder.takes(first)
        folder.takes(answer)


@pytest.mark.parametrize("order", ["graph", "vector"])
def test_a_tree_with_tags_of_version_1_goes_on_as_a_group(tmp_path: Path, order: str) -> None:
    group = Group(tmp_path, NAMES)
    make_folders(group, order)
    assert all(is_fixed(tmp_path / name) for name in NAMES)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings={"spread": "tree", "order": order})
            assert all(node.members == tuple(NAMES) for node in nodes)
            a, b, c = nodes
            for node in (b, c):
                [event] = await delivered(node.events(), 1)
                assert (event.origin, event.seq, event.payload) == ("a", 2, b"second of a")
            sent = [node.name_of(await node.broadcast(b"after the upgrade")) for node in nodes]
            assert sent == [("a", 3), ("b", 2), ("c", 1)]
            for node in nodes:
                events = await delivered(node.events(), 2)
                told = [(event.origin, event.seq) for event in events]
                assert sorted(told) == [place for place in sent if place[0] != node.me]
            await until(lambda: all(node.status().unstable == 0 for node in nodes))
            assert all(node.status().clock == {"a": 3, "b": 2, "c": 1} for node in nodes)
            assert a.status().spread == "tree"

    run(test)
    assert not any(is_fixed(tmp_path / name) for name in NAMES)
    assert all((tmp_path / name / OPLOG / "1").is_dir() for name in NAMES)


def test_a_tree_without_tags_of_version_1_goes_on_as_it_was(tmp_path: Path) -> None:
    group = Group(tmp_path, NAMES)
    make_folders(group, "none")

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings={"spread": "tree", "order": "none"})
            for node in nodes[1:]:
                [event] = await delivered(node.events(), 1)
                assert (event.origin, event.seq, event.payload) == ("a", 2, b"second of a")
            [[(place, _)]] = [await nodes[0]._host.publish([b"after the upgrade"])]
            assert place == ("a", 3)
            for node in nodes[1:]:
                assert (await delivered(node.events(), 1))[0].payload == b"after the upgrade"
            assert all(node.status().clock == {"a": 3, "b": 1, "c": 0} for node in nodes)

    run(test)
    assert not any(is_fixed(tmp_path / name) for name in NAMES)


@pytest.mark.parametrize("order", ["graph", "vector"])
def test_a_tree_with_tags_is_not_opened_without(tmp_path: Path, order: str) -> None:
    group = Group(tmp_path, NAMES)
    make_folders(group, order)

    async def test() -> None:
        with pytest.raises(UsageError, match="is of a tree with tags"):
            async with group.open("b", settings={"spread": "tree", "order": "none"}):
                pass
        async with group.open("b", settings={"spread": "tree", "order": order}):
            pass
        with pytest.raises(UsageError, match="is of order with tags, and stays so"):
            async with group.open("b", settings={"spread": "tree", "order": "none"}):
                pass

    run(test)

"""Changing groups as people meet them: real processes that join, are killed, evicted, return and leave."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.changing import events_of, judged
from support.processes import eventually

from thence.cli.main import main
from thence.core.errors import ThenceError
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.spawn import SpawnedProcess, spawn
from thence.runtime.load import Load
from thence.runtime.remote import Control
from thence.runtime.status import GroupStatus

ENDLESS = Load(rate=10, seconds=600, bytes=16)


class Town:
    """A cluster of `thence up`, and what joins it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "town"
        self.trace = folder / "trace"
        self._flags = ["--trace", str(self.trace), "--profile", "local", "--allow-faults"]
        self.cluster = Cluster(open_layout(self.data, 3, changing=True), flags=self._flags)
        self.joined: dict[str, SpawnedProcess] = {}

    def join(self, *names: str) -> None:
        for name in names:
            (self.data / name).mkdir(exist_ok=True)
            command = [sys.executable, "-m", "thence.cli.main", "join", name, "--data", str(self.data)]
            self.joined[name] = spawn([*command, *self._flags], self.data / name / "log.txt")

    def control(self, name: str) -> Control:
        return Control.of(self.data / name)

    def group(self, name: str) -> GroupStatus:
        told = self.control(name).status().group
        assert told is not None
        return told

    def until(self, names: str, is_so: Callable[[GroupStatus], bool]) -> None:
        def all_so() -> bool:
            with suppress(ThenceError):
                return all(is_so(self.group(name)) for name in names)
            return False

        eventually(all_so)

    def load(self, names: str) -> None:
        for name in names:
            self.control(name).load(ENDLESS)

    def kill(self, name: str) -> None:
        if name in self.joined:
            self.joined[name].kill()
            self.joined[name].wait()
        else:
            self.cluster.kill(name)

    def rest(self, names: str) -> None:
        """No more load, and every member has everything."""
        for name in names:
            self.control(name).load(Load(count=0))

        def at_rest() -> bool:
            told = [self.control(name).status() for name in names]
            return all(one.clock == told[0].clock and not one.unstable for one in told)

        eventually(at_rest)

    def close(self) -> None:
        for process in self.joined.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.joined.values():
            process.wait()
        self.cluster.stop()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path)
    try:
        town.cluster.start()
        town.until("abc", lambda group: len(group.view) == 3)
        yield town
    finally:
        town.close()


def test_a_group_grows_is_hurt_and_shrinks_under_load_and_its_trace_is_flawless(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    town.load("abc")
    town.join("d", "e", "f")
    town.until("abcdef", lambda group: group.phase == "member" and len(group.view) == 6)
    town.load("def")

    for name in "be":
        town.kill(name)
    town.cluster.start("b")
    town.join("e")
    town.until("be", lambda group: group.phase == "member" and len(group.view) == 6)
    town.load("be")

    town.cluster.pause("c")
    assert main(["evict", "c", "--by", "a", "--data", str(town.data)]) == 2, "it seems to be alive"
    assert main(["evict", "c", "--by", "a", "--force", "--data", str(town.data)]) == 0
    town.until("abdef", lambda group: "c" not in group.view)
    town.cluster.resume("c")
    town.until("abcdef", lambda group: "c~2" in group.view)

    for name in "df":
        assert main(["leave", name, "--data", str(town.data)]) == 0
    town.until("abce", lambda group: group.view == ["a", "b", "c~2", "e"])
    town.rest("abce")
    capsys.readouterr()
    assert main(["members", str(town.data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agree"]

    town.close()
    assert judged(town.trace).flagged == ()
    kinds = {(event.node, event.kind) for event in events_of(town.trace)}
    assert {("c", "crash"), ("c~2", "install"), ("a", "evict"), ("d", "leave"), ("b", "restart")} <= kinds


def test_nonsense_is_refused_all_are_killed_at_once_and_go_on_and_in_the_end_all_leave(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, why in (
        (["evict", "z"], "z is not a member"),
        (["evict", "a", "--by", "a"], "a is this node itself"),
        (["leave"], "say which one is to leave"),
        (["join", "a"], "a is one of the nodes that `thence up` runs"),
    ):
        assert main([*words, "--data", str(town.data)]) == 2
        assert why in capsys.readouterr().err

    town.load("abc")
    for name in "abc":
        town.kill(name)
    town.cluster.start()
    town.until("abc", lambda group: group.phase == "member")
    town.load("abc")
    for name in "abc":
        town.control(name).leave()
    ended: dict[str, str] = {}

    def all_ended() -> bool:
        ended.update({event.name: event.what for event in town.cluster.watch()})
        return len(ended) == 3

    eventually(all_ended)
    assert set(ended.values()) == {"ended"}, "in order"
    assert all("left" in " ".join(node.last_lines()) for node in town.cluster.nodes.values())
    assert judged(town.trace).flagged == ()


def test_no_node_joins_or_leaves_a_fixed_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_layout(tmp_path / "fixed", 1)
    assert main(["join", "--data", str(tmp_path / "fixed")]) == 2
    assert "is closed: no other node can join it" in capsys.readouterr().err

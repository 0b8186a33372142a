"""Integration: real processes over a tree whose logs forget. One sleeps for longer than they remember."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.live_history import read

from thence.check import judge
from thence.lab.chaos.quiescence import await_rest
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.runtime.load import Load
from thence.runtime.status import Status

TTL_S = 1.0
PATIENCE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    flags = {
        "profile": "local", "spread": "eco-sync-tree", "trace": tmp_path / "trace", "log.sync": "no",
        "tree.ttl_us": round(TTL_S * 1e6), "log.segment_bytes": 4096, "links.silence_us": 1_000_000,
    }  # fmt: skip
    made = Cluster(open_layout(tmp_path / "data", 3), flags=as_arguments(flags))
    try:
        yield made
    finally:
        made.stop(hurry=lambda: True)


def linked(status: Status, name: str) -> bool:
    return any(member.name == name and member.link == "up" for member in status.members)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_node_that_slept_through_a_whole_time_to_live_catches_up_and_loses_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    def status(name: str) -> Status:
        return cluster.control(name).status()

    cluster.start()
    cluster.ready()
    for name in cluster.names:
        cluster.control(name).load(Load(rate=100.0, seconds=PATIENCE_S, bytes=64))
    until(lambda: all(min(status(name).clock.values()) > 20 for name in cluster.names))
    cluster.pause("c")
    until(lambda: not any(linked(status(name), "c") for name in "ab"))  # what was under way may still arrive
    asleep_at = {name: status(name).log.tail for name in "ab"}
    until(lambda: all(status(name).log.head > asleep_at[name] for name in "ab"))  # nothing of that is left
    cluster.resume("c")
    until(lambda: status("c").clock["a"] > status("a").clock["a"] - 100)
    for name in cluster.names:
        cluster.control(name).load(Load(count=0))
    await_rest(cluster, PATIENCE_S, lambda _: None)
    assert len({tuple(status(name).clock.items()) for name in cluster.names}) == 1
    assert set(cluster.stop(grace_s=20).values()) == {0}
    events = read(tmp_path / "trace")
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert any(event.kind == "install" and event.node == "c" for event in events), "no state was needed"
    assert {event.kind for event in events} >= {"eager", "lazy", "sync", "unlink"}, "links are not told of"

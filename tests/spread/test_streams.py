"""Every spread over partial views under the kits of streams and of trees."""

from collections.abc import Callable
from itertools import combinations

import pytest
from support.conformance_streams import STREAM_CHECKS, TREE_CHECKS
from support.grove import Grove

from thence.core.errors import UsageError
from thence.core.history import History
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.stream_link import StreamSettings
from thence.spread.streams import Streams
from thence.spread.sync_tree import SyncTree, TreeSettings


class NoStates:
    """A log that forgets nothing needs none."""

    def newest(self) -> tuple[tuple[int, ...], bytes] | None:
        return None

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        raise AssertionError("a state from nowhere")


def eco(me: int, size: int, history: History) -> EcoSyncTree:
    return EcoSyncTree(me, size, history, NoStates())


@pytest.mark.parametrize("check", STREAM_CHECKS)
def test_streams_conform(check: str) -> None:
    STREAM_CHECKS[check](Streams)


@pytest.mark.parametrize("check", TREE_CHECKS)
@pytest.mark.parametrize("make", [SyncTree, eco], ids=["sync-tree", "eco-sync-tree"])
def test_trees_conform(make: Callable[[int, int, History], SyncTree], check: str) -> None:
    TREE_CHECKS[check](make)


def central(me: int, size: int, history: History) -> SyncTree:
    return SyncTree(me, size, history, TreeSettings(challenge_us=1_000_000))


@pytest.mark.parametrize(
    "check", ["grows", "shortest", "orphan", "at once", "next announcer", "bounded", "late beat"]
)
def test_trees_with_a_moving_root_conform(check: str) -> None:
    TREE_CHECKS[check](central)


def test_the_root_moves_to_where_the_neighbours_are_close() -> None:
    grove = Grove(central, 6)
    edges = list(combinations(range(6), 2))
    for one, other in edges:
        grove.latency[one, other] = grove.latency[other, one] = 10_000 if 4 in (one, other) else 60_000
    grove.connect(edges)
    grove.run(8_000_000)
    assert {node.root for node in grove.nodes} == {4}
    assert grove.is_tree()
    assert {peer for node, peer in grove.live() if node == 4} == {0, 1, 2, 3, 5}
    for peer in (0, 1, 2, 3, 5):
        grove.down(4, peer)
    grove.run(3_000_000)
    assert len({grove.nodes[node].root for node in (0, 1, 2, 3, 5)}) == 1
    assert grove.nodes[0].root != 4


def test_a_root_whose_neighbours_have_moved_away_steps_down() -> None:
    """Else a node that was in the middle once would be the root for good."""
    grove = Grove(central, 6)
    edges = list(combinations(range(6), 2))
    for one, other in edges:
        grove.latency[one, other] = grove.latency[other, one] = 10_000 if 4 in (one, other) else 40_000
    grove.connect(edges)
    grove.run(8_000_000)
    assert {node.root for node in grove.nodes} == {4}
    for peer in (0, 1, 2, 3, 5):
        grove.down(4, peer)
        grove.latency[4, peer] = grove.latency[peer, 4] = 90_000
        grove.up(4, peer)
        grove.run(100_000)
    grove.run(8_000_000)
    [root] = {node.root for node in grove.nodes}
    assert root != 4
    assert grove.is_tree()


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError):
        StreamSettings(window=0)
    with pytest.raises(UsageError):
        TreeSettings(check_us=100_000)
    with pytest.raises(UsageError):
        TreeSettings(samples=0)

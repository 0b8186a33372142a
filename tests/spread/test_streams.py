"""Every spread over partial views under the kits of streams and of trees."""

from collections.abc import Callable

import pytest
from support.conformance_streams import STREAM_CHECKS, TREE_CHECKS

from thence.core.errors import UsageError
from thence.core.history import History
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.streams import Streams, StreamSettings
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


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError):
        StreamSettings(window=0)
    with pytest.raises(UsageError):
        TreeSettings(check_us=100_000)
    with pytest.raises(UsageError):
        TreeSettings(samples=0)

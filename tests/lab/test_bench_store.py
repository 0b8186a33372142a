"""The clients of `thence bench store`, and what it asks of two nodes at once."""

from pathlib import Path

import pytest

from thence.lab.bench import store_nodes
from thence.lab.bench.store import COMMANDS
from thence.lab.bench.store_clients import CLIENTS, drive
from thence.lab.tour.live import FLAGS, running
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST
from thence.local.redis_client import RedisClient
from thence.runtime.address import Address


def test_all_commands_are_made_and_two_nodes_agree_on_keys_set_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(store_nodes, "AT_ONCE", 200)
    layout = open_layout(tmp_path / "cluster", 3, changing=False)
    base = store.resp_base(layout, None)
    cluster = Cluster(layout, flags=FLAGS, own=store.flags(layout, base))
    with running(cluster):
        cluster.start()
        cluster.ready()
        for pipeline in (16, 1):
            for name, words in COMMANDS.items():
                assert drive(base, name, words, pipeline, 2 * CLIENTS * pipeline) > 0
        with RedisClient(Address(HOST, base)) as ask:
            counts = [int(count or 0) for count in ask("MGET", *[f"count:{n}" for n in range(1000)])]
            assert sum(counts) == 2 * CLIENTS * 17
        assert store_nodes._differ(base) == 0

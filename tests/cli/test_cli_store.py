"""On which ports the nodes of a local cluster answer Redis clients."""

from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.local.layout import open_layout
from thence.local.ports import free_ports
from thence.local.stores import flags, joiner, resp_base


def test_ports_stay_the_same(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "cluster", 3)
    assert joiner(layout.folder) == {}
    base = resp_base(layout, None)
    assert resp_base(layout, None) == base
    assert flags(layout, base)["b"] == ["--resp", f"127.0.0.1:{base + 1}"]
    assert set(joiner(layout.folder)) == {"resp"}
    other = free_ports(3)
    assert resp_base(layout, other) == resp_base(layout, None) == other


def test_clusters_that_start_at_the_same_time_take_other_ports(tmp_path: Path) -> None:
    bases = [resp_base(open_layout(tmp_path / name, 3), None) for name in ("one", "other")]
    assert abs(bases[0] - bases[1]) >= 3


def test_there_must_be_room(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "cluster", 3)
    with pytest.raises(UsageError, match="room for 3 ports"):
        resp_base(layout, 65_535)

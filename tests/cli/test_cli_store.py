"""On which ports the nodes of a local cluster answer Redis clients."""

from pathlib import Path

import pytest

from thence.cli.layout import free_ports, open_layout
from thence.cli.store import flags, joiner, resp_base
from thence.core.errors import UsageError


def test_ports_stay_the_same(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "cluster", 3)
    assert joiner(layout.folder) == {}
    base = resp_base(layout, None)
    assert resp_base(layout, None) == base
    assert flags(layout, base)["b"] == ["--resp", f"127.0.0.1:{base + 1}"]
    assert set(joiner(layout.folder)) == {"resp"}
    other = free_ports(3)
    assert resp_base(layout, other) == resp_base(layout, None) == other


def test_there_must_be_room(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "cluster", 3)
    with pytest.raises(UsageError, match="room for 3 ports"):
        resp_base(layout, 65_535)

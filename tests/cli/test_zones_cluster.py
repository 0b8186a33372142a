"""Zones of real processes: `thence up --topology`, and the death of a gateway under load."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.live_history import read

from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.local.cluster import Cluster
from thence.local.zones_file import open_zones_layout
from thence.runtime.load import Load
from thence.runtime.status import Status, ZonesStatus

ZONES = """
[zones]
office = ["a"]
plant = ["c"]
[routers]
r1 = ["office", "plant"]
r2 = ["office", "plant"]
"""
PATIENCE_S = 120.0


def until(reached: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "zones.toml").write_text(ZONES)
    layout = open_zones_layout(tmp_path / "data", tmp_path / "zones.toml")
    flags = [
        "--trace", str(tmp_path / "trace"), "--profile", "local", "--set", "zones.suspect_us=1000000",
    ]  # fmt: skip
    made = Cluster(layout, flags=flags)
    made.start()
    yield made
    made.stop(hurry=lambda: True)


def test_a_witness_takes_over_when_the_active_gateway_is_killed_under_load(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.ready(patience_s=PATIENCE_S)
    for name in ("a", "c"):
        cluster.control(name).load(Load(rate=50, seconds=8))
    until(lambda: _delivered(cluster, "c") > 50)
    cluster.kill("r1")
    until(lambda: _zones(cluster, "r2").active)
    until(lambda: _sent(cluster, "a") == _sent(cluster, "c") == 400)
    until(lambda: _delivered(cluster, "a") == _delivered(cluster, "c") == 400)
    assert _zones(cluster, "a").gone == ["r1"]
    cluster.stop(grace_s=20)
    [verdict] = judge(read(tmp_path / "trace"))
    assert verdict.ok, verdict
    assert (verdict.sends, verdict.deliveries) == (800, 800)


def _status(cluster: Cluster, name: str) -> Status:
    return cluster.control(name).status()


def _zones(cluster: Cluster, name: str) -> ZonesStatus:
    told = _status(cluster, name).zones
    assert told is not None
    return told


def _sent(cluster: Cluster, name: str) -> int:
    return _status(cluster, name).sent


def _delivered(cluster: Cluster, name: str) -> int:
    return _status(cluster, name).delivered


def test_a_folder_keeps_its_topology(tmp_path: Path) -> None:
    (tmp_path / "zones.toml").write_text(ZONES)
    open_zones_layout(tmp_path / "data", tmp_path / "zones.toml")
    assert open_zones_layout(tmp_path / "data", None).names == ("a", "c", "r1", "r2")
    (tmp_path / "other.toml").write_text(ZONES.replace('"a"', '"a", "b"'))
    with pytest.raises(UsageError, match="another topology"):
        open_zones_layout(tmp_path / "data", tmp_path / "other.toml")

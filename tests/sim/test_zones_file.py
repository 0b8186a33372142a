"""Topology files: what they say, and what is wrong with them."""

from pathlib import Path

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.sim.scenarios import configure
from thence.sim.zones_file import read_zones

FINE = """
[zones]
office = ["ada", "bob"]
backbone = []
plant = ["cem", "dee"]
[routers]
r1 = ["office", "backbone"]
r2 = ["office", "backbone"]
s1 = ["backbone", "plant"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "zones.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_topology(tmp_path: Path) -> None:
    path = written(tmp_path, FINE)
    topology = read_zones(path)
    told = [[topology.names[each] for each in separator.members] for separator in topology.separators]
    assert told == [["r1", "r2"], ["s1"]]
    settings = configure("storm", order="separator", topology=str(path), seed=3, messages=10)
    outcome, events = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert {event.node for event in events} == {"ada", "bob", "cem", "dee", "r1", "r2", "s1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("zones = 3", r"\[zones\] is missing"),
        ("", r"\[zones\] is missing"),
        ("[zones]\na = 'x'", "zones.a must be a list of names of members"),
        ("[zones]\na = ['x']\n[roads]", "unknown table 'roads'"),
        ("[zones]\na = ['x', 'x']", "x is named twice"),
        ("[zones]\na = ['x']\nb = ['x']", r"belongs to \[routers\]"),
        ("[zones]\na = ['x y']", "no white space"),
        ("[zones]\na = ['x']\nb = ['y']\n[routers]\nr = ['a', 'c']", "unknown zone 'c'; there is a, b"),
        ("[zones]\na = ['x']\nb = ['y']\n[routers]\nr = ['a']", "r must join two zones"),
        ("[zones]\na = ['x']\nb = ['y']\n[routers]\nx = ['a', 'b']", "x is a member of a zone and a router"),
        ("[zones]\na = ['x']\nb = ['y']", "no router separates the zones"),
        (
            "[zones]\na = ['x']\nb = ['y']\nc = ['z']\n[routers]\nr = ['a', 'b']",
            "zone c cannot be reached from a",
        ),
        (
            "[zones]\na = ['x']\nb = ['y']\nc = ['z']\n"
            "[routers]\nr = ['a', 'b']\ns = ['b', 'c']\nt = ['c', 'a']",
            "zones form a circle",
        ),
        ("[zones", "is no TOML file"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_zones(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the topology"):
        read_zones(tmp_path / "none.toml")

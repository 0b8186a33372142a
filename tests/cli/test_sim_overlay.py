"""`thence sim` with spreads over partial views: flags, output, traces that Spark finds faultless."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main


def test_a_spread_over_partial_views_is_enough_to_get_an_overlay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--spread", "sync-tree", "--nodes", "6", "--messages", "3"]) == 0
    told = capsys.readouterr().out
    assert "6 nodes at the end, order none, spread sync-tree" in told
    assert "complete" in told


def test_so_is_a_scenario_that_only_overlays_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "catastrophe", "--nodes", "10", "--messages", "6", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["complete"]
    assert facts["nodes"] == 7
    assert len(facts["settled_ms"]) == len(facts["healed_ms"]) == 1


def test_nodes_of_a_live_storm_are_made_like_live_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "live-storm", "--seed", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["complete"]
    assert facts["live"]
    assert facts["slow"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scenario", "churn", "--spread", "mesh"], "scenario churn is for partial views"),
        (["--spread", "flood", "--loss", "0.1"], "--loss has no meaning"),
        (["--spread", "flood", "--scenario", "storm"], "no scenario 'storm' for partial views"),
        (["--probability", "0.5"], "--probability is for spreads over partial views"),
        (["--spread", "sync-tree", "--durable", "--order", "graph"], "a tree with tags is --scenario tree"),
        (["--scenario", "live-storm", "--spread", "flood"], "live nodes spread by trees or gossip"),
        (["--spread", "flood", "--probability", "2"], "--probability is above 0 and at most 1"),
    ],
)
def test_flags_that_do_not_fit_are_told_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_the_list_of_scenarios_names_those_of_overlays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "list"]) == 0
    assert "massive-join" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("scenario", ["churn", "partition"])
def test_spark_finds_nothing_wrong_with_a_tree(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--scenario", scenario, "--spread", "sync-tree", "--nodes", "12", "--messages", "40"]
    assert main(["sim", *flags, "--payload-bytes", "16", "--trace", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert report["runs"][0]["deliveries"] > 3000

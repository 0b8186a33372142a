"""Integration: `thence chaos` as people run it, on this machine and in networks of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thence.cli.main import main
from thence.lab.chaos import command
from thence.lab.chaos.net import Net, Netem, far, inside, why_not
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.pipeline.where import Where


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_storm_on_real_processes_ends_well(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.run(0.25, 3, 2, tmp_path / "out", netem=False, keep=False, where=Where(master="local[2]"))
    said = capsys.readouterr().out
    assert code == 0, said
    assert "no violation of any kind" in said
    assert not (tmp_path / "out").exists(), "what held leaves nothing behind"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_storm_over_a_changing_group_ends_well(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.run(
        0.25, 5, 5, tmp_path / "out", netem=False, keep=False, where=Where(master="local[2]"), changing=True
    )
    said = capsys.readouterr().out
    assert code == 0, said
    assert "the same ones at every member" in said
    assert "no violation of any kind" in said
    assert not (tmp_path / "out").exists(), "what held leaves nothing behind"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_storm_with_packets_lost_and_late_ends_well(tmp_path: Path) -> None:
    """In a process of its own: it moves into a namespace."""
    if reason := why_not():
        pytest.skip(reason)
    trial = [sys.executable, "-m", "thence.cli.main", "chaos", "--netem", "--minutes", "0.3", "--nodes", "3"]
    done = subprocess.run(
        [*trial, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_network_of_its_own_is_there_and_then_gone() -> None:
    if reason := why_not(weather=False):
        pytest.skip(reason)

    def ip(*words: str) -> str:
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout

    label, here = f"test{os.getpid()}", os.readlink("/proc/thread-self/ns/net")
    net = Net(label, ["a", "b"])
    with net.up(None):
        assert "10.213.0.254" in ip("-brief", "address"), "we are in the hub"
        with inside(f"thence-{label}-b"):
            assert "10.213.0.2/24" in ip("-brief", "address")
    assert f"thence-{label}" not in ip("netns", "list")
    assert os.readlink("/proc/thread-self/ns/net") == here, "and back where we were"


def test_nodes_of_a_far_cluster_have_an_address_each_and_run_in_their_namespace(tmp_path: Path) -> None:
    layout = far(open_layout(tmp_path / "c", 2, base_port=7200))
    assert layout.members == "a=10.213.0.1:7200,b=10.213.0.2:7200"
    cluster = Cluster(layout, program=("program",))
    Net("x", layout.names).move(cluster)
    command_of_b = cluster.nodes["b"].command
    assert command_of_b[:5] == ("ip", "netns", "exec", "thence-x-b", "program")
    assert command_of_b[command_of_b.index("--http") + 1] == "10.213.0.2:7201"


def test_weather_is_told_to_the_kernel_in_its_words() -> None:
    said = " ".join(Netem(10, 5, 1.0, 25.0).arguments())
    assert said == "delay 10ms 5ms loss 1.0% reorder 25.0%"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--nodes", "1"], "2 to 9 nodes"),
        (["--minutes", "0"], "--minutes must be positive"),
        (["--changing", "--nodes", "3"], "a changing group has at least 4 nodes"),
        (["--order", "none"], "--order none is for a tree that is --changing"),
        (["--changing", "--spread", "star"], "--spread is mesh or tree or eco-sync-tree or edge, not 'star'"),
        (["--out", "."], "holds something else"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", *given]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def test_where_packets_cannot_be_lost_it_is_said_why(capsys: pytest.CaptureFixture[str]) -> None:
    if (reason := why_not()) is None:
        pytest.skip("packets can be lost here")
    assert main(["chaos", "--netem"]) == 2
    assert f"--netem is not possible: {reason.split(':')[0]}" in capsys.readouterr().err

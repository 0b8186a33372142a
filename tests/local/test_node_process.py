"""Nodes that `thence up` starts: the flags of `thence node`, without what reads them there."""

import subprocess
import sys
from pathlib import Path

import pytest

from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.local.node_process import main, read


@pytest.mark.parametrize("changing", [False, True])
def test_what_a_cluster_tells_its_nodes_is_understood(tmp_path: Path, changing: bool) -> None:
    layout = open_layout(tmp_path / "c", 2, changing=changing)
    common = as_arguments({"profile": "local", "log.sync": "always", "allow_faults": True, "order": None})
    node = Cluster(layout, flags=common, own={"b": ["--resp", "127.0.0.1:0"]}).nodes["b"]
    flags, words = read(list(node.command[3:]))
    assert (flags["name"], flags["data"], flags["allow_faults"]) == ("b", layout.data("b"), True)
    assert (flags["cluster"], flags["secret_file"], flags["resp"]) == (
        layout.cluster,
        layout.secret,
        "127.0.0.1:0",
    )
    assert words == ["profile=local", "log.sync=always"]
    if changing:
        assert flags["join"] == [str(layout.address(name)) for name in "ab"]
    else:
        assert flags["members"] == layout.members


@pytest.mark.parametrize(
    "arguments", [["name"], ["--name"], ["--colour", "red"], ["--set", "log.sync=never"]]
)
def test_what_is_not_understood_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("thence: ")
    assert told.count("\n") == 1


def test_it_loads_nothing_of_the_command_line_nor_of_other_kinds_of_node() -> None:
    """What a process never runs costs it no memory."""
    loaded = (
        "import sys, thence.local.node_process, thence.runtime.running, thence.runtime.changing; "
        "print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
    modules = set(shown.split())
    assert "thence.replica.group.member.member" in modules
    assert not {"typer", "rich", "pydantic", "sqlite3", "http.client", "email"} & modules
    trees = {"thence.replica.edge", "thence.replica.open_tree", "thence.spread.streams"}
    assert not {*trees, "thence.order.probabilistic", "thence.order.separator"} & modules

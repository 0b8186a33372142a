"""Files of edge trees: what is no tree is told, and a tree may grow."""

from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.local.edge_file import open_edge_layout, read_plan
from thence.local.status_table import edge_tree
from thence.runtime.status import EdgeChildStatus, EdgeStatusReport, LogStatus, Status

SAMPLE = Path(__file__).parents[2] / "examples" / "tree.toml"
SMALL = '[nodes.r]\n[nodes.a]\nparent = "r"\ngroups = ["g", "h"]\n'


def test_the_sample_is_a_datacentre_with_three_regions_and_nine_edges() -> None:
    plan = read_plan(SAMPLE)
    assert plan.root == "dc"
    assert [sum(plan.depth(name) == depth for name in plan.names) for depth in range(3)] == [1, 3, 9]
    assert {group for groups in plan.groups.values() for group in groups} == {"orders", "stock"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no nodes"),
        ("[nodes.r]\n[nodes.s]\n", "one root, and r, s have no parent"),
        ('[nodes.r]\n[nodes.a]\nparent = "x"\n', "a is below x, which is no node"),
        ('[nodes.a]\nparent = "b"\n[nodes.b]\nparent = "a"\n', "a is below b is below a: that is a cycle"),
        ('[nodes.r]\n[nodes.a]\nparent = "a"\n', "a is below a: that is a cycle"),
        ('[nodes.r]\ngroups = "g"\n', "the groups of r are a list"),
        ('[nodes.r]\ngroups = ["a b"]\n', "no name for a group"),
        ("[nodes.r]\nparent = 1\n", "the parent of r is a name"),
        ("[nodes.r]\ngroup = []\n", "r has 'group'"),
        ("delta = 0\n[nodes.r]\n", "delta is a number"),
        ("depth = 1\n[nodes.r]\n", "there is no 'depth'"),
        ('[nodes."a b"]\n', "no name for a node"),
        ("nodes = 1\n", "names no nodes"),
        ("[nodes]\nr = 1\n", "r must be a table"),
        ("[nodes", "is no TOML"),
    ],
)
def test_what_is_no_tree_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=told) as error:
        read_plan(file)
    assert str(file) in str(error.value)


def test_each_node_is_told_its_parent_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(f"delta = 2\n{SMALL}")
    layout = open_edge_layout(tmp_path / "data", file)
    root, a = layout.group_flags("r", ()), layout.group_flags("a", ())
    assert "--root" in root
    assert "--parent" not in root
    assert a[a.index("--parent") + 1] == str(layout.address("r"))
    assert a[a.index("--groups") + 1] == "g,h"
    assert "edge.delta=2" in a


def test_a_tree_goes_on_as_it_was_and_may_grow_but_not_shrink(tmp_path: Path) -> None:
    file, data = tmp_path / "tree.toml", tmp_path / "data"
    file.write_text(SMALL)
    first = open_edge_layout(data, file)
    assert open_edge_layout(data, None) == first
    file.write_text(SMALL + '[nodes.b]\nparent = "a"\n')
    grown = open_edge_layout(data, file)
    assert grown.names == ("r", "a", "b")
    assert grown.address("a") == first.address("a")
    assert open_edge_layout(data, None) == grown
    file.write_text(SMALL)
    with pytest.raises(UsageError, match="begins with them"):
        open_edge_layout(data, file)
    with pytest.raises(UsageError, match="which tree"):
        open_edge_layout(tmp_path / "other", None)


def test_status_shows_the_tree_who_is_passed_by_and_what_the_gate_holds_back() -> None:
    log = LogStatus(bytes=0, head=0, tail=0, durable=0, sync="always")

    def status(name: str, report: EdgeStatusReport) -> Status:
        return Status(
            name=name, cluster="c", pid=1, uptime_s=0, state="running", boot=1, members=[], sent=0,
            delivered=0, inbox=0, held=0, unstable=0, oldest_unstable_s=None, holding_stability_back=[],
            log=log, edge=report,
        )  # fmt: skip

    child = EdgeChildStatus(name="b~7", chain=["r"], gated=3)
    root = EdgeStatusReport(identity="r", rank=0, root="r", parent="", groups=["g"], children=[child])
    b = EdgeStatusReport(identity="b~7", rank=2, root="r", parent="r", chain=["r", "x~1"], bypassed=["a"])
    c = EdgeStatusReport(identity="c~7", rank=3, root="r", parent="", alone=True, without_parent_s=5)
    lines = [str(line) for line in edge_tree([status("r", root), status("b", b), status("c", c)])]
    assert lines == [
        "c; without a parent for 5.0 s; its subtree goes on alone",
        "r [g]; the gate holds 3 back for b",
        "  b may attach to r, x~1; a is passed by",
    ]

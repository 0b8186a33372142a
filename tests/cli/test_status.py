"""Integration: `thence status` as a person and a script meet it, over fake nodes behind real routes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.controlled import FakeNode, serving

from thence.cli import status
from thence.cli.main import main
from thence.cli.nodes import node_folder, node_folders
from thence.core.errors import UsageError
from thence.local.layout import Hold, open_layout
from thence.local.ports import release
from thence.local.probe import NodeProbe, look
from thence.local.status_table import duration, held_back, notes, size
from thence.oplog.settings import LogSettings
from thence.runtime.folder import DataFolder
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.status import GroupStatus


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, FakeNode]]:
    """Three nodes in a folder, with what `thence up` puts beside them."""
    (tmp_path / "cluster.toml").write_text("")
    (tmp_path / "lock").write_text("")
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(tmp_path / name, FakeNode(name))) for name in "abc"}


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """First word of each line -> the line's words."""
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    return {words[0]: words for words in lines}


def test_a_cluster_that_is_well_is_one_row_per_node_and_exit_0(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(tmp_path)]) == 0
    rows = shown(capsys)
    assert rows["b"] == ["b", "running", "12.5", "s", "2/2", "0", "7", "0", "0", "0", "5", "a", "121", "KiB"]
    assert {"a", "b", "c"} < rows.keys()
    assert rows["everything"] == ["everything", "is", "stable"]


def test_who_holds_stability_back_is_told_with_who_says_so(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        cluster[name].unstable, cluster[name].holding = 9, ["c"]
    assert main(["status", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "held back by c: the oldest message has waited for 4.2 s (says a, b)" in out
    assert "everything is stable" not in out
    assert held_back(look([tmp_path / name for name in "abc"])) == [("c", 4.25, ["a", "b"])]


def test_nodes_that_do_not_answer_are_shown_as_down(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "identity").write_bytes(b"")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("no node")
    control = json.loads((tmp_path / "b" / "control.json").read_text())
    (tmp_path / "b" / "control.json").write_text(json.dumps(control | {"started": "before"}))
    assert main(["status", str(tmp_path)]) == 1
    rows = shown(capsys)
    assert rows["d"][:3] == ["d", "down", "–"]
    assert rows["b"][:3] == ["b", "crashed", "–"]
    assert "notes" not in rows
    assert "node" in rows["everything"], "what a node that is down knows, no other knows"


def test_a_node_with_a_broken_disk_is_not_well(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["a"].wrong = "disk full"
    assert main(["status", str(tmp_path)]) == 1
    assert "a: disk full" in capsys.readouterr().out


def test_faults_in_force_are_told(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["a"].fault("cut", "b", 0)
    cluster["c"].fault("slow", "a", 1500)
    assert main(["status", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "a has cut its link with b" in out
    assert "c sends to a 1.5 ms late" in out


def test_the_folder_of_one_node_shows_its_links_too(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["a"].fault("cut", "b", 0)
    assert main(["status", str(tmp_path / "a")]) == 0
    rows = shown(capsys)
    assert rows["b"][:5] == ["b", "127.0.0.1:7102", "cut", "3.0", "s"]
    assert rows["c"][2] == "up"


def test_json_is_for_programs(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["c"].unstable, cluster["c"].holding = 1, ["b"]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "log.txt").write_text("it never came up")
    assert main(["status", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(node["name"], node["state"], node["well"]) for node in told["nodes"]] == [
        ("a", "running", True), ("b", "running", True), ("c", "running", True), ("d", "down", False),
    ]  # fmt: skip
    assert told["nodes"][0]["status"]["log"]["sync"] == "everysec"
    assert told["nodes"][3]["status"] is None
    assert told["holding_stability_back"] == [{"name": "b", "since_s": 4.25, "say": ["c"]}]


def test_watching_shows_rates_from_one_look_to_the_next(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / name for name in "abc"]
    before = look(folders)
    cluster["a"].payloads += [b"x"] * 30
    status.console().print(status.page(look(folders), before, passed_s=2.0))
    rows = shown(capsys)
    assert rows["a"][5:9] == ["30", "15/s", "7", "0/s"]


def test_watching_ends_with_ctrl_c_and_that_is_no_failure(
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("thence.cli.status.sleep", wait)
    assert main(["status", str(tmp_path), "--watch", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([json.loads(line) for line in lines]) == 3


@pytest.mark.parametrize(
    ("make", "complaint"), [(False, "there is no folder"), (True, "no node keeps its data")]
)
def test_a_folder_without_nodes_is_one_line_and_exit_2(
    make: bool, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if make:
        (tmp_path / "x").mkdir()
    assert main(["status", str(tmp_path / "x")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert told.err.count("\n") == 1


def test_the_default_folder_is_thence_data_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "thence-data" / "a", FakeNode("a")):
        assert main(["status"]) == 0
    assert "a" in shown(capsys)


def test_a_node_is_found_by_the_name_of_its_folder_or_by_its_own(tmp_path: Path) -> None:
    with serving(tmp_path / "somewhere", FakeNode("a")):
        assert node_folder(tmp_path / "somewhere", "a") == tmp_path / "somewhere"
        assert node_folder(tmp_path, "somewhere") == tmp_path / "somewhere"
        with pytest.raises(UsageError, match="there is no node 'z'"):
            node_folder(tmp_path, "z")


def test_times_and_sizes_are_written_for_people() -> None:
    assert [duration(s) for s in (0.25, 59.94, 61, 3600 * 5, 86400 * 3 + 7200)] == [
        "250 ms", "59.9 s", "1 min 1 s", "5 h 0 min", "3 d 2 h",
    ]  # fmt: skip
    assert [size(n) for n in (0, 1023, 1536, 200 * 1024, 5 * 2**40)] == [
        "0 B", "1,023 B", "1.5 KiB", "200 KiB", "5.0 TiB",
    ]  # fmt: skip


def test_changing_groups_tell_what_is_going_on_and_who_sees_whom(tmp_path: Path) -> None:
    def seen(name: str, group: GroupStatus) -> NodeProbe:
        status = msgspec.structs.replace(FakeNode(name).status(), group=group)
        return NodeProbe(tmp_path / name, name, "running", status)

    told = [
        seen("a", GroupStatus(incarnation="a", phase="member", view=["a", "c~2"], orphans=1200)),
        seen("b", GroupStatus(incarnation="b", phase="member", view=["a", "b"], suspects=["a"])),
        seen("d", GroupStatus(incarnation="", phase="joining", view=[], waiting_for=["a at h:1"])),
    ]
    lines = [str(line) for line in notes(told)]
    assert "a is to send again, from before its return, 1,200 messages" in lines
    assert "b has not heard from all members that they go on without a" in lines
    assert "d waits: a at h:1" in lines
    assert "members as a sees them: a, c~2" in lines
    assert "members as b sees them: a, b" in lines


def test_a_node_that_has_left_is_no_trouble(tmp_path: Path, cluster: dict[str, FakeNode]) -> None:
    with DataFolder(tmp_path / "d") as folder:
        shelf = IncarnationStore(folder, "d", "thence", LogSettings())
        shelf.boot()
        shelf.left(unclean=False)
        shelf.close(in_order=True)
    [left] = look([tmp_path / "d"])
    assert (left.state, left.well, left.why) == ("left", True, "it has left its group, in order")
    assert main(["status", str(tmp_path)]) == 0
    assert cluster


def test_the_root_of_a_tree_is_told_and_so_are_several(cluster: dict[str, FakeNode], tmp_path: Path) -> None:
    seen = look([tmp_path / name for name in "abc"])

    def told(*roots: str) -> list[str]:
        rooted = [
            replace(node, status=msgspec.structs.replace(node.status, root=root))
            for node, root in zip(seen, roots, strict=True)
            if node.status is not None
        ]
        return [str(line) for line in notes(rooted) if "root" in str(line)]

    assert told("", "", "") == [], "a mesh has none"
    assert told("a", "a", "a") == ["one tree, root a"]
    assert told("a", "c", "c") == ["several roots, which do not hear each other: a (1 nodes), c (2 nodes)"]


def test_a_node_that_has_its_folder_and_does_not_answer_yet_is_starting(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a"):
        [seen] = look([tmp_path / "a"])
        assert (seen.state, seen.why, seen.well) == ("starting", "it does not answer yet", False)
    [seen] = look([tmp_path / "a"])
    assert seen.state == "down"


def test_to_wait_ends_when_all_are_well_or_the_time_is_over(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(tmp_path), "--wait", "600"]) == 0
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "log.txt").touch()
    assert main(["status", str(tmp_path), "--wait", "0.2"]) == 1
    assert main(["status", str(tmp_path / "nowhere"), "--wait", "0.2"]) == 2


def test_to_wait_begins_before_the_cluster_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script does that starts a cluster in the background."""
    looks = []

    def seen(folder: Path) -> list[Path]:
        looks.append(folder)
        if len(looks) < 3:
            raise UsageError("there is no folder")
        return node_folders(folder)

    monkeypatch.setattr("thence.cli.status.node_folders", seen)
    with serving(tmp_path / "cluster" / "a", FakeNode("a")):
        assert main(["status", str(tmp_path / "cluster"), "--wait", "600"]) == 0
    assert len(looks) == 3


def test_nodes_of_a_cluster_are_shown_before_the_first_of_them_has_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = open_layout(tmp_path / "c", 2)
    release(layout.folder)
    assert main(["status", str(layout.folder)]) == 1
    assert [one.state for one in look(node_folders(layout.folder))] == ["down", "down"]
    hold = Hold(layout.folder)  # as `thence up` has it when it starts them
    assert [one.state for one in look(node_folders(layout.folder))] == ["starting", "starting"]
    hold.release()
    (layout.folder / "cluster.toml").write_text("damaged")
    assert main(["status", str(layout.folder)]) == 2

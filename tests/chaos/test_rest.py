"""When a group is at rest, and what is said of one that is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from thence.lab.chaos.quiescence import account, complaints, grown, left_over, memory_bytes
from thence.lab.chaos.storm import changes
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.runtime.status import LoadStatus, LogStatus, MemberStatus, Status

LOG = LogStatus(bytes=1, head=0, tail=1, durable=1, sync="no")
ME = MemberStatus(name="a", address="127.0.0.1:1", link="me")
PEER = MemberStatus(name="b", address="127.0.0.1:2", link="up")


def status(**changed: object) -> Status:
    at_rest: dict[str, object] = {
        "name": "a", "cluster": "x", "pid": 1, "uptime_s": 1.0, "state": "running", "boot": 1,
        "members": [ME, PEER], "sent": 5, "delivered": 6, "inbox": 0, "held": 0, "unstable": 0,
        "oldest_unstable_s": None, "holding_stability_back": [], "log": LOG,
    }  # fmt: skip
    return Status(**{**at_rest, **changed})  # type: ignore[arg-type]


def peer(**changed: object) -> list[MemberStatus]:
    return [ME, MemberStatus(**{"name": "b", "address": "127.0.0.1:2", "link": "up", **changed})]  # type: ignore[arg-type]


def test_nothing_is_said_of_a_node_at_rest() -> None:
    assert account(status()) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"state": "draining"}, "it is draining"),
        ({"inbox": 3}, "3 released and not taken"),
        ({"held": 1}, "1 held for their causes"),
        ({"unstable": 2000, "holding_stability_back": ["b"]}, "2,000 not stable, for want of b"),
        ({"members": peer(link="down", since_s=3.04)}, "link to b down for 3.0 s"),
        ({"members": peer(lag=7)}, "b has not acknowledged 7 of its messages"),
        ({"load": LoadStatus(running=True, sent=1, seconds=1, rate=1)}, "its load still runs"),
        (
            {"log": LogStatus(bytes=1, head=0, tail=1, durable=1, sync="no", trouble="disk full")},
            "log: disk full",
        ),
    ],
)
def test_whatever_keeps_a_node_from_rest_is_told(changed: dict[str, object], said: str) -> None:
    assert account(status(**changed)) == said


def test_a_process_that_still_runs_from_a_folder_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", "--data", str(tmp_path / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it runs
        assert left_over(tmp_path) == [child.pid]
        assert left_over(tmp_path / "b") == []
        child.communicate(b"\n")
    assert left_over(tmp_path) == []


def test_a_person_may_look_into_the_folder_of_a_round() -> None:
    """Round 7034 ended with exit code 1, for a `cp` of its traces that was under way."""
    with subprocess.Popen(
        ["/bin/sh", "-c", "echo; read x", "/a/folder/a/log.txt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert left_over(Path("/a/folder")) == []
        child.communicate(b"\n")


def test_memory_is_compared_for_processes_that_were_there_before() -> None:
    mib = 1 << 20
    assert memory_bytes(os.getpid()) > mib
    assert memory_bytes(None) == 0
    assert grown({1: 10 * mib, 2: 10 * mib}, {1: 30 * mib, 3: 900 * mib}, 20 * mib) == ""
    assert grown({1: 10 * mib}, {1: 31 * mib}, 20 * mib) == "process 1 grew from 10 to 31 MiB"


def test_faults_of_a_link_are_changed_step_by_step() -> None:
    whole, cut, slow, both = (False, 0.0), (True, 0.0), (False, 5.0), (True, 5.0)
    assert changes(whole, whole) == []
    assert changes(whole, cut) == [("cut", 0.0)]
    assert changes(cut, whole) == [("mend", 0.0)]
    assert changes(whole, slow) == [("slow", 5.0)]
    assert changes(both, slow) == [("mend", 0.0), ("slow", 5.0)]
    assert changes(both, whole) == [("mend", 0.0), ("slow", 0.0)]
    assert changes(slow, cut) == [("cut", 0.0), ("slow", 0.0)]


def test_errors_and_tracebacks_and_peers_that_were_cut_off_are_found_in_logs(tmp_path: Path) -> None:
    cluster = Cluster(open_layout(tmp_path / "c", 2))
    log = cluster.nodes["a"].log
    log.parent.mkdir()
    log.write_text(
        "2026-01-01T00:00:00Z info  running node=a error=none\n"
        '2026-01-01T00:00:01Z warn  "peer cut off" peer=b why="spoke nonsense"\n'
        "2026-01-01T00:00:02Z error cannot write\n"
        'Traceback (most recent call last):\n  File "x"\nValueError: what\n'
    )
    assert complaints(cluster) == [
        'a: 2026-01-01T00:00:01Z warn  "peer cut off" peer=b why="spoke nonsense"',
        "a: 2026-01-01T00:00:02Z error cannot write",
        "a: ValueError: what",
    ]

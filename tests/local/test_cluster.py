"""Supervision of real processes: what dies comes back, what is stopped stays down, nothing is left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import stub_node
from support.processes import alive, eventually

from thence.core.errors import ThenceError, UsageError
from thence.local.cluster import Cluster, ClusterEvent, Restarts
from thence.local.layout import open_layout

STUB = (sys.executable, stub_node.__file__)


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def cluster(tmp_path: Path, clock: Time) -> Iterator[Cluster]:
    made = Cluster(
        open_layout(tmp_path / "c", 2), program=STUB, flags=("--sync", "no"), restarts=Restarts(), clock=clock
    )
    yield made
    made.stop(hurry=lambda: True)


def started(cluster: Cluster, *names: str) -> None:
    """Start, and wait until the stubs are up."""
    cluster.start(*names)
    for name in names or cluster.names:
        node = cluster.nodes[name]
        eventually(lambda node=node: pid_of(node.folder) == node.pid)  # type: ignore[misc]


def pid_of(folder: Path) -> int | None:
    return int((folder / "pid").read_text()) if (folder / "pid").exists() else None


def watched(cluster: Cluster) -> ClusterEvent:
    """The next event."""
    events: list[ClusterEvent] = []

    def look() -> bool:
        events.extend(cluster.watch())
        return bool(events)

    eventually(look)
    [event] = events
    return event


def behave(cluster: Cluster, name: str, how: str) -> None:
    cluster.folders[name].mkdir(exist_ok=True)
    (cluster.folders[name] / "behave").write_text(how)


def test_nodes_are_told_who_they_are_and_who_is_with_them(cluster: Cluster) -> None:
    started(cluster)
    said = (cluster.folders["b"] / "starts").read_text()
    port = cluster.layout.base_port
    assert f"--members a=127.0.0.1:{port},b=127.0.0.1:{port + 1} " in said
    assert "--name b " in said
    assert said.endswith("--sync no\n")
    assert cluster.watch() == []


def test_a_node_that_is_killed_from_outside_comes_back_after_a_pause(cluster: Cluster, clock: Time) -> None:
    started(cluster)
    pid = cluster.nodes["a"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    event = watched(cluster)
    assert (event.name, event.what) == ("a", "died")
    assert "SIGKILL" in event.text
    assert cluster.nodes["a"].state == "waiting"
    clock.now += Restarts().first_s - 0.01
    assert cluster.watch() == []
    clock.now += 0.01
    [event] = cluster.watch()
    assert (event.name, event.what) == ("a", "started")
    assert cluster.nodes["a"].pid not in (None, pid)


def test_the_pause_grows_with_each_death_and_is_forgotten_after_a_calm_time() -> None:
    restarts = Restarts(first_s=1, most_s=5, calm_s=10)
    assert restarts.pause_s(0, ran_s=0) == 1
    assert restarts.pause_s(1, ran_s=9) == 2
    assert restarts.pause_s(2, ran_s=9) == 4
    assert restarts.pause_s(4, ran_s=9) == 5
    assert restarts.pause_s(5, ran_s=10) == 1


def test_a_node_that_refuses_to_run_is_not_tried_again(cluster: Cluster, clock: Time) -> None:
    behave(cluster, "a", "exit 2")
    cluster.start()
    event = watched(cluster)
    assert (event.name, event.what) == ("a", "refused")
    assert cluster.nodes["a"].last_lines() == ["line one", "the reason why"]
    clock.now += 1000
    assert cluster.watch() == []
    assert cluster.nodes["a"].state == "refused"


def test_last_lines_are_those_of_the_latest_process(cluster: Cluster) -> None:
    started(cluster, "a")
    cluster.kill("a")
    behave(cluster, "a", "exit 1")
    cluster.start("a")
    watched(cluster)
    assert cluster.nodes["a"].last_lines() == ["line one", "the reason why"]
    assert cluster.nodes["a"].log.read_text() == "up\nline one\nthe reason why\n"


def test_a_node_that_the_cluster_killed_stays_down_until_it_is_started(cluster: Cluster, clock: Time) -> None:
    started(cluster)
    cluster.kill("a")
    clock.now += 1000
    assert cluster.watch() == []
    assert cluster.nodes["a"].state == "down"
    started(cluster, "a")
    assert cluster.nodes["a"].starts == 2
    assert cluster.nodes["b"].starts == 1


def test_a_restart_stops_in_order_and_starts(cluster: Cluster) -> None:
    started(cluster)
    cluster.restart("b")
    assert cluster.nodes["b"].code == 0
    assert cluster.nodes["b"].starts == 2
    assert cluster.nodes["b"].state == "running"


def test_stop_waits_for_those_that_stop_even_if_they_were_paused(cluster: Cluster) -> None:
    started(cluster)
    pids = [node.pid for node in cluster.nodes.values()]
    cluster.pause("b")
    assert cluster.stop() == {"a": 0, "b": 0}
    assert not any(alive(pid) for pid in pids if pid)
    assert cluster.stop() == {"a": None, "b": None}


def test_stop_kills_what_does_not_stop(cluster: Cluster) -> None:
    behave(cluster, "b", "deaf")
    started(cluster)
    codes = cluster.stop(hurry=lambda: cluster.nodes["a"].process.poll() is not None)  # type: ignore[union-attr]
    assert codes == {"a": 0, "b": -signal.SIGKILL}


def test_two_cannot_run_one_folder_and_the_next_can_once_it_is_stopped(cluster: Cluster) -> None:
    started(cluster)
    second = Cluster(cluster.layout, program=STUB)
    with pytest.raises(UsageError, match=f"already run by process {os.getpid()}"):
        second.start()
    cluster.stop()
    with second:
        second.start()


def test_a_node_that_never_gets_well_is_told_with_what_it_said(cluster: Cluster) -> None:
    behave(cluster, "a", "exit 2")
    cluster.start("a")
    with pytest.raises(ThenceError, match=r"node a is not ready: no node runs in .*the reason why"):
        cluster.ready("a")


def test_a_node_that_has_ended_is_told_of_while_another_waits_for_it(tmp_path: Path) -> None:
    """As two whose third has no port do: they look for it as long as they are given."""
    made: list[Cluster] = []

    def clock() -> float:
        """Their time is over when the one has ended."""
        process = made[0].nodes["b"].process if made else None
        return 0.0 if process is None or process.poll() is None else 1e6

    cluster = Cluster(open_layout(tmp_path / "c", 2), program=STUB, flags=("--sync", "no"), clock=clock)
    made.append(cluster)
    behave(cluster, "b", "exit 2")
    with cluster:
        cluster.start()
        with pytest.raises(ThenceError, match=r"node b is not ready: no node runs in .*the reason why"):
            cluster.ready()


def test_a_node_that_does_not_exist_is_named(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="there is no node x; there is a, b"):
        cluster.kill("x")


def test_a_node_outlives_the_thread_that_started_it(cluster: Cluster) -> None:
    """To the kernel, a child belongs to the thread that forked it."""
    thread = threading.Thread(target=started, args=(cluster,))
    thread.start()
    thread.join()
    pids = [node.pid for node in cluster.nodes.values()]
    # A signal of the kernel would be there by the time that a process started afterwards is up.
    cluster.restart("a")
    eventually(lambda: pid_of(cluster.folders["a"]) == cluster.nodes["a"].pid)
    assert pids[1] is not None
    assert alive(pids[1])
    assert cluster.watch() == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent dies")
def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    """Not even a node that is stopped, and so could not watch for its parent."""
    program = (
        "import signal, sys\n"
        "from pathlib import Path\n"
        "from thence.local.cluster import Cluster\n"
        "from thence.local.layout import open_layout\n"
        "cluster = Cluster(open_layout(Path(sys.argv[1]), 3), program=sys.argv[2:])\n"
        "cluster.start()\n"
        "signal.pause()\n"
    )
    folder = tmp_path / "c"
    supervisor = subprocess.Popen([sys.executable, "-c", program, str(folder), *STUB])
    try:
        eventually(lambda: all(pid_of(folder / name) for name in "abc"))
        pids = [pid for name in "abc" if (pid := pid_of(folder / name))]
        os.kill(pids[1], signal.SIGSTOP)
    finally:
        supervisor.kill()
        supervisor.wait()
    eventually(lambda: not any(alive(pid) for pid in pids))


def test_real_nodes_deliver_to_each_other_across_a_crash(tmp_path: Path) -> None:
    """The whole way: settings, processes, links, log, and the routes that trials drive it with."""
    with Cluster(open_layout(tmp_path / "c", 3), flags=("--profile", "local")) as cluster:
        cluster.start()
        cluster.ready()
        assert cluster.control("a").broadcast(b"one") == ("a", 1)
        cluster.kill("b")
        assert cluster.control("a").broadcast(b"two") == ("a", 2)
        cluster.restart("b")
        cluster.ready("b")
        assert cluster.control("b").broadcast(b"three") == ("b", 1)
        for name in ("a", "b", "c"):
            eventually(lambda name=name: is_done(cluster, name))  # type: ignore[misc]
        assert cluster.control("a").status().delivered == 1
        assert cluster.control("c").status().delivered == 3
        assert cluster.stop() == {"a": 0, "b": 0, "c": 0}


def is_done(cluster: Cluster, name: str) -> bool:
    """Everything is stable, and so was delivered everywhere."""
    status = cluster.control(name).status()
    return status.unstable == 0 and sum(member.lag for member in status.members) == 0

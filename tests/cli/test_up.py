"""`thence up` as a person or a script meets it: real processes, stub nodes behind the real routes."""

import os
import pty
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import stub_node
from support.processes import PATIENCE_S, alive, eventually

from thence.cli import up
from thence.cli.main import main
from thence.core.errors import UsageError
from thence.local.layout import open_layout
from thence.local.node import as_arguments, with_words
from thence.local.ports import release
from thence.runtime.remote import Control
from thence.runtime.sources import compose

PROGRAM = """
import sys
from pathlib import Path
from thence.cli import main, up
data, load, *program = sys.argv[1:]
wish = up.Wish(data=Path(data), load=float(load) if load else None, program=tuple(program), changing=False,
               flags={"drain_us": 60_000_000})
main.app.command("stubs")(lambda: sys.exit(up.run(wish)))
sys.exit(main.main(["stubs"]))
"""


def command(data: Path, load: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(data), load, sys.executable, stub_node.__file__, "--answering"]


class Running:
    """`thence up` in a pipe, line by line."""

    def __init__(self, data: Path, load: str = "") -> None:
        self.data = data
        self.process = subprocess.Popen(
            command(data, load), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.said: list[str] = []

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, pattern: str) -> re.Match[str]:
        """The first line from here on that matches."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"never said {pattern!r}, but {self.said}") from None
            self.said.append(line)
            if found := re.search(pattern, line):
                return found

    def until_up(self, names: str) -> dict[str, int]:
        """The pids of these nodes, once all are up; they may come up in any order."""
        pids: dict[str, int] = {}
        while len(pids) < len(names):
            found = self.until(r"^(\w+) is up: process (\d+)")
            pids[found[1]] = int(found[2])
        assert set(pids) == set(names)
        return pids

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.until("^stopped")
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = open_layout(tmp_path / "c", 3).folder
    release(folder)  # other processes run the cluster
    return folder


@pytest.fixture
def running(data: Path) -> Iterator[Running]:
    made = Running(data)
    yield made
    made.close()


def behave(data: Path, name: str, how: str) -> None:
    (data / name).mkdir()
    (data / name / "behave").write_text(how)


def test_a_cluster_comes_up_heals_and_stops_without_leaving_a_process(running: Running) -> None:
    running.until(r"^3 nodes in .*; Ctrl-C stops them$")
    pids = running.until_up("abc")
    os.kill(pids["b"], signal.SIGKILL)
    running.until(r"^b died: killed by SIGKILL; starts again in 0\.5 s$")
    running.until(r"^b started again")
    again = running.until_up("b")
    assert again["b"] != pids["b"]
    assert running.stop() == 0
    assert not any(alive(pid) for pid in (*pids.values(), *again.values()))
    assert not any("┃" in line or "delivered" in line for line in running.said), "a table in a pipe"


def test_it_goes_on_from_its_folder_with_the_same_addresses(data: Path, running: Running) -> None:
    running.until_up("abc")
    assert running.stop() == 0
    second = Running(data)
    try:
        second.until_up("abc")
        assert second.stop() == 0
    finally:
        second.close()
    first_time, second_time = (data / "c" / "starts").read_text().splitlines()
    assert first_time == second_time


def test_a_node_that_refuses_is_shown_with_its_last_lines_while_the_others_go_on(data: Path) -> None:
    behave(data, "b", "exit 2")
    running = Running(data)
    try:
        running.until(r"^b refused to run \(exit code 2\)")
        running.until(r"^  b: the reason why$")
        running.until_up("ac")
        assert running.stop() == 0
        assert len((data / "b" / "starts").read_text().splitlines()) == 1
    finally:
        running.close()


def test_when_all_refuse_it_ends_with_2(data: Path) -> None:
    for name in "abc":
        behave(data, name, "exit 2")
    running = Running(data)
    try:
        running.until("^no node is left$")
        assert running.process.wait(PATIENCE_S) == 2
    finally:
        running.close()


def test_a_program_that_asks_twice_does_not_wait_for_a_node_that_does_not_stop(data: Path) -> None:
    behave(data, "c", "deaf")
    running = Running(data)
    try:
        running.until_up("ab")
        eventually((data / "c" / "pid").exists)
        running.process.send_signal(signal.SIGINT)
        running.until("^stopping, for up to 63 s")
        running.process.send_signal(signal.SIGINT)
        running.until("^c did not stop in time and was killed")
        running.until("^stopped, not all in order$")
        assert running.process.wait(PATIENCE_S) == 1
    finally:
        running.close()


def test_a_node_that_is_stopped_before_it_has_begun_has_stopped_in_order(data: Path) -> None:
    behave(data, "c", "early")
    running = Running(data)
    try:
        running.until_up("ab")
        eventually((data / "c" / "pid").exists)
        assert running.stop() == 0
        assert "c was stopped before it had begun" in running.said
        assert running.said[-1] == "stopped"
    finally:
        running.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent dies")
def test_no_node_outlives_it_even_if_it_is_killed(running: Running) -> None:
    pids = running.until_up("abc")
    os.kill(pids["a"], signal.SIGSTOP)
    running.process.kill()
    eventually(lambda: not any(alive(pid) for pid in pids.values()))


def test_load_is_asked_of_every_node_and_again_after_a_restart(data: Path) -> None:
    running = Running(data, load="50")
    try:
        pids = running.until_up("abc")
        for name in "abc":
            eventually(lambda name=name: Control.of(data / name).status().load is not None)  # type: ignore[misc]
        os.kill(pids["a"], signal.SIGKILL)
        running.until_up("a")
        eventually(lambda: Control.of(data / "a").status().sent > 0)
        assert running.stop() == 0
    finally:
        running.close()


@pytest.mark.parametrize(("before", "heard"), [(signal.SIG_IGN, []), (signal.SIG_DFL, [signal.SIGHUP])])
def test_what_nohup_has_silenced_stays_so(before: signal.Handlers, heard: list[signal.Signals]) -> None:
    own = signal.signal(signal.SIGHUP, before)
    try:
        with up.stopping() as asked:
            signal.raise_signal(signal.SIGHUP)
        assert asked == heard
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, own)


def test_a_terminal_shows_a_table(data: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command(data), stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while not re.search(rb"delivered(.|\n)*a.*running(.|\n)*c.*running", shown):
            shown += os.read(ours, 65_536)
        process.send_signal(signal.SIGTERM)
        while b"stopped" not in shown:
            shown += os.read(ours, 65_536)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nodes", "0"], "--nodes must be between"),
        (["--sync", "never"], "--sync: must be"),
        (["--profile", "moon"], "--profile: must be"),
        (["--set", "mesh.window=none"], "--set mesh.window: must be a whole number"),
        (["--set", "name=x"], "--set name: the cluster decides"),
        (["--load", "-1"], "a rate is 0"),
        (["--base-port", "70000"], "--base-port must"),
        (["--resp-base", "70000"], "--resp-base must"),
        (["--base-port", "9000", "--resp-base", "9002"], "overlap"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_is_written(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--data", str(tmp_path / "c"), *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "c" / "cluster.toml").exists()


def test_a_port_for_redis_clients_that_is_in_use_is_told_before_the_folder_is_bound_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert main(["up", "--data", str(tmp_path / "c"), "--nodes", "1", "--resp-base", str(port)]) == 2
    told = f"thence: port {port} is in use by another program: give another --resp-base\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "c").exists()


def test_what_the_nodes_are_told_is_what_was_asked_for() -> None:
    """Keys to a command line and back."""
    flags = {"allow_faults": True, "log.sync": "always", "stability.enabled": False, "trace": None}
    given = with_words(flags, ["mesh.window=99", "insecure=no"])
    arguments = as_arguments(given)
    assert arguments[0] == "--allow-faults"
    words = [word for word in arguments[1:] if word != "--set"]
    here = {"name": "a", "listen": "127.0.0.1:1", "data": "d", "secret": "none"}
    assert compose({**here, **with_words({"allow_faults": True}, words)}, {}) == compose(
        {**here, **given}, {}
    )
    with pytest.raises(UsageError, match="given as a flag as well"):
        with_words({"log.sync": "no"}, ["log.sync=always"])


@pytest.mark.parametrize("words", [["--order", "vector-e2e"], ["--spread", "tree", "--order", "vector-e2e"]])
def test_an_engine_that_live_nodes_do_not_have_is_refused_before_anything_is_written(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--fixed", "--data", str(tmp_path / "new"), *words]) == 2
    assert (
        main(["node", "--name", "a", "--members", "a=127.0.0.1:1", "--data", str(tmp_path / "a"), *words])
        == 2
    )
    assert capsys.readouterr().err.count("thence: ") == 2
    assert list(tmp_path.iterdir()) == []

"""Integration: a fake node's routes over real loopback HTTP, and the client that reads control.json."""

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.controlled import FakeNode, Lines, serving

from thence.core.errors import ThenceError, UsageError
from thence.runtime import control_file
from thence.runtime.address import Address
from thence.runtime.control import gate, token_of
from thence.runtime.http import ClientLimits, Refused, Request
from thence.runtime.load import Load
from thence.runtime.remote import Control, NoAnswer


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with serving(tmp_path, FakeNode()) as node:
        yield node


@pytest.fixture
def control(tmp_path: Path, node: FakeNode) -> Control:
    return Control.of(tmp_path, timeout_s=30)


def ask(
    control: Control, method: str, path: str, body: bytes = b"", token: str | None = None, **more: str
) -> tuple[int, str, str]:
    """Status, words and type of the content, as any HTTP client gets them."""
    connection = http.client.HTTPConnection(control.file.host, control.file.port, timeout=30)
    headers = {**more, **({} if token is None else {"Authorization": f"Bearer {token}"})}
    connection.request(method, path, body if method == "POST" else None, headers)
    response = connection.getresponse()
    told = response.status, response.read().decode(), response.getheader("Content-Type", "")
    connection.close()
    return told


def test_a_healthy_node_says_ok(control: Control, node: FakeNode) -> None:
    assert ask(control, "GET", "/health")[:2] == (200, "ok\n")
    assert control.health() is None


def test_a_node_in_trouble_says_why(control: Control, node: FakeNode) -> None:
    node.wrong = "nothing more is written: disk full"
    assert ask(control, "GET", "/health")[:2] == (503, "nothing more is written: disk full\n")
    assert control.health() == "nothing more is written: disk full"


def test_metrics_are_there_for_all_and_the_status_for_those_with_the_token(
    control: Control, node: FakeNode
) -> None:
    code, body, kind = ask(control, "GET", "/status", token=control.file.token)
    assert (code, kind) == (200, "application/json")
    told = json.loads(body)
    assert (told["name"], told["log"]["sync"], told["members"][0]["link"]) == ("a", "everysec", "me")
    assert control.status() == node.status()
    code, body, kind = ask(control, "GET", "/metrics")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'thence_peer_lag_messages{peer="b"} 5\n' in body


ROUTES = [("GET", "/status"), *[("POST", f"/{what}") for what in ("broadcast", "load", "fault", "stop")]]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("token", [None, "", "guess", "é"])
def test_no_client_is_told_or_tells_anything_without_the_token(
    method: str, path: str, token: str | None, control: Control, node: FakeNode
) -> None:
    code, words, _ = ask(control, method, path, b"{}", token)
    assert code == 401
    assert "control.json" in words
    assert node.payloads == []
    assert not node.stopped.is_set()


def test_a_token_follows_from_the_secret_and_is_good_for_one_node() -> None:
    token = token_of(b"secret", "c", "a")
    assert token == token_of(b"secret", "c", "a")
    assert len({token, token_of(b"other", "c", "a"), token_of(b"secret", "d", "a"),
                token_of(b"secret", "c", "b")}) == 4  # fmt: skip


def test_without_a_secret_no_token_is_needed(tmp_path: Path) -> None:
    with serving(tmp_path, FakeNode(secret=b"")) as node:
        control = Control.of(tmp_path, timeout_s=30)
        assert control.file.token == ""
        assert control.status() == node.status()
        assert ask(control, "POST", "/broadcast", b"x")[0] == 200
        assert ask(control, "POST", "/stop", b"{}", Origin="http://evil.example")[0] == 403
        assert not node.stopped.is_set()


HOSTS = {
    "127.0.0.1:80": 200, "127.0.0.1": 200, "127.1.2.3": 200, "localhost:8080": 200, "LOCALHOST": 200,
    "[::1]:80": 200, "[::1]": 200, "evil.example": 421, "evil.example:80": 421, "127.0.0.1.evil.example": 421,
    "192.0.2.1": 421, "": 421, "[": 421, "[evil]": 421, "localhost.evil": 421, "a\xe9": 421,
}  # fmt: skip


@pytest.mark.parametrize(("host", "code"), HOSTS.items())
@pytest.mark.parametrize("path", ["/health", "/status"])
def test_a_name_that_is_not_the_nodes_is_not_answered_to(
    host: str, code: int, path: str, control: Control
) -> None:
    """A page whose name leads here, to a browser on this machine, must not read or tell anything."""
    assert ask(control, "GET", path, token=control.file.token, Host=host)[0] == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [("http://127.0.0.1:3000", 200), ("http://localhost", 200), ("https://evil.example", 403), ("null", 403)],
)
def test_pages_of_other_hosts_are_not_answered(origin: str, code: int, control: Control) -> None:
    assert ask(control, "GET", "/health", Origin=origin)[0] == code


def test_a_node_that_listens_everywhere_answers_to_addresses_and_to_no_names(tmp_path: Path) -> None:
    with serving(tmp_path, FakeNode(listens=Address("0.0.0.0", 0))):
        control = Control.of(tmp_path, timeout_s=30)
        told = {host: ask(control, "GET", "/health", Host=host)[0] for host in ("192.0.2.1:9", "x.example")}
    assert told == {"192.0.2.1:9": 200, "x.example": 421}


def test_a_node_answers_to_the_name_that_it_listens_at(tmp_path: Path) -> None:
    check = gate("node.example", "")
    check(Request("GET", "/health", headers={"host": "Node.Example:80"}))
    with pytest.raises(Refused):
        check(Request("GET", "/health", headers={"host": "other.example:80"}))


def test_health_is_answered_while_others_take_all_connections(tmp_path: Path) -> None:
    with serving(tmp_path, FakeNode(limits=ClientLimits(connections=2, reserved=2))):
        control = Control.of(tmp_path, timeout_s=30)
        where = control.file.address
        idle = [socket.create_connection(where) for _ in range(12)]
        try:
            assert control.health() is None
            with pytest.raises(ThenceError, match="too many connections"):
                control.status()
        finally:
            for each in idle:
                each.close()


def test_the_token_is_for_the_owner_of_the_folder_only(control: Control, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "control.json").stat().st_mode) == 0o600
    assert len(control.file.token) >= 32


def test_a_broadcast_answers_with_its_dot(control: Control, node: FakeNode) -> None:
    assert control.broadcast(b"\x00any bytes") == ("a", 1)
    assert control.broadcast(b"") == ("a", 2)
    assert node.payloads == [b"\x00any bytes", b""]


def test_a_broadcast_that_the_disk_refuses_is_no_success(control: Control, node: FakeNode) -> None:
    node.disk_full = True
    with pytest.raises(ThenceError, match="node a: no space left for the log"):
        control.broadcast(b"x")
    assert ask(control, "POST", "/broadcast", b"x", control.file.token)[0] == 503


def test_a_load_runs_in_the_node(control: Control, node: FakeNode) -> None:
    control.load(Load(count=100, bytes=10))
    while (load := control.status().load) is None or load.running:
        pass
    assert load.sent == 100
    assert len(node.payloads) == 100


def test_faults_reach_the_node_in_its_units(control: Control, node: FakeNode) -> None:
    control.fault("cut", "b")
    control.fault("slow", "c", 1.5)
    assert (node.cut, node.slow_us) == (["b"], {"c": 1500})
    assert control.status().faults.cut == ["b"]
    control.fault("pause")
    control.fault("mend")
    assert (node.cut, node.slow_us) == ([], {})


def test_a_node_that_allows_no_faults_takes_none(tmp_path: Path) -> None:
    with serving(tmp_path, FakeNode(allow_faults=False)) as node:
        with pytest.raises(UsageError, match="--allow-faults"):
            Control.of(tmp_path).fault("cut", "b")
        assert node.cut == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("/fault", {"what": "melt"}, "melt"),
        ("/fault", {"what": "cut"}, "peer is missing"),
        ("/fault", {"what": "cut", "peer": "z"}, "no member 'z'"),
        ("/fault", {"what": "slow", "peer": "b", "delay_ms": -1}, "-1"),
        ("/load", {"rate": 5}, "needs an end"),
        ("/load", {"count": "many"}, "count"),
        ("/load", {"cuont": 5}, "cuont"),
        ("/load", [1], "load"),
        ("/nothing", {}, "there is no /nothing"),
    ],
)
def test_nonsense_is_refused_in_words(path: str, value: object, complaint: str, control: Control) -> None:
    with pytest.raises(UsageError, match=complaint):
        control.post(path, value)


def test_broken_json_is_refused(control: Control) -> None:
    for body in (b"", b"{", b'{"what": "\xff"}', b"[" * 10_000):
        assert ask(control, "POST", "/fault", body, control.file.token)[0] == 400


def test_a_bug_in_a_node_is_logged_and_answered(tmp_path: Path) -> None:
    log = Lines()
    with (
        serving(tmp_path, FakeNode(explode=True), log),
        pytest.raises(ThenceError, match="the log tells why"),
    ):
        Control.of(tmp_path).status()
    [(level, event, fields)] = log.told
    assert (level, event, fields["error"]) == ("warn", "control_failed", "RuntimeError('a bug')")


def test_a_node_that_is_stopped_answers_first_and_takes_its_file_away(tmp_path: Path) -> None:
    with serving(tmp_path, FakeNode()) as node:
        Control.of(tmp_path).stop()
        assert node.stopped.is_set()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="no node runs in"):
        Control.of(tmp_path)


def test_no_folder_is_said_as_such(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        Control.of(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b'{"name": 1}', b"[]"])
def test_a_damaged_file_is_said_as_such(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "control.json").write_bytes(damage)
    with pytest.raises(UsageError, match="damaged"):
        Control.of(tmp_path)


def changed(folder: Path, **changes: object) -> None:
    """The file says something else from now on."""
    file = msgspec.structs.replace(control_file.read(folder), **changes)
    control_file.write(folder, file)


def test_the_file_of_a_crashed_node_is_recognised(tmp_path: Path, node: FakeNode) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    changed(tmp_path, pid=ended.pid)
    with pytest.raises(NoAnswer, match="ended without a clean stop") as told:
        Control.of(tmp_path)
    assert told.value.absence == "gone"


def test_another_process_with_the_same_number_is_not_taken_for_the_node(
    tmp_path: Path, node: FakeNode
) -> None:
    """Numbers of processes are used again; this one is ours, but it started at another time."""
    assert control_file.read(tmp_path).pid == os.getpid()
    changed(tmp_path, started="before")
    with pytest.raises(NoAnswer, match="ended without a clean stop"):
        Control.of(tmp_path)


def test_another_node_at_the_address_is_not_taken_for_ours(tmp_path: Path, node: FakeNode) -> None:
    changed(tmp_path, name="b", token="old")
    control = Control.of(tmp_path)
    for attempt in (control.status, lambda: control.broadcast(b"x")):
        with pytest.raises(NoAnswer, match="does not fit") as told:
            attempt()
        assert told.value.absence == "stranger"
    assert node.payloads == []


def test_a_node_that_accepts_and_says_nothing_does_not_hang_the_client(
    tmp_path: Path, node: FakeNode
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        changed(tmp_path, port=silent.getsockname()[1])
        with pytest.raises(NoAnswer, match="does not answer") as told:
            Control.of(tmp_path, timeout_s=0.05).status()
    assert told.value.absence == "silent"

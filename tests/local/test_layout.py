"""The folder of a local cluster: the same addresses at each start, and no file of another program."""

import socket
import stat
from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.local.layout import names, need_ports, open_layout
from thence.runtime.settings import check_name


def test_names_are_letters_then_letters_with_numbers() -> None:
    assert names(3) == ("a", "b", "c")
    assert names(54)[25:28] == ("z", "a1", "b1")
    assert names(54)[-1] == "b2"
    for name in names(256):
        check_name(name)


def test_a_cluster_has_the_same_addresses_and_secret_when_it_is_opened_again(tmp_path: Path) -> None:
    made = open_layout(tmp_path / "c", 3, http_base=9100)
    secret = made.secret.read_bytes()
    again = open_layout(tmp_path / "c")
    assert again == made
    assert again.secret.read_bytes() == secret
    assert again.address("c").port == again.address("a").port + 2
    assert again.http("b").port == 9101


def test_the_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "c", 1)
    assert stat.S_IMODE(layout.secret.stat().st_mode) == 0o600
    assert len(layout.secret.read_text().strip()) == 64


def test_another_number_of_nodes_or_another_port_is_refused(tmp_path: Path) -> None:
    made = open_layout(tmp_path / "c", 3)
    with pytest.raises(UsageError, match="has 3 nodes, not 4"):
        open_layout(tmp_path / "c", 4)
    with pytest.raises(UsageError, match=f"has base port {made.base_port}, not 7"):
        open_layout(tmp_path / "c", 3, base_port=7)


def test_http_ports_may_move(tmp_path: Path) -> None:
    made = open_layout(tmp_path / "c", 3, base_port=20_000)
    assert made.http("a").port == 0
    assert open_layout(tmp_path / "c", http_base=21_000).http("c").port == 21_002
    assert open_layout(tmp_path / "c").http("c").port == 21_002
    with pytest.raises(UsageError, match="overlap"):
        open_layout(tmp_path / "c", http_base=20_002)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(UsageError, match="holds something else"):
        open_layout(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_making_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")
    (tmp_path / "cluster.toml.new").write_text("vers")
    open_layout(tmp_path, 2)
    assert len(open_layout(tmp_path).names) == 2
    assert (tmp_path / "secret").read_text()


@pytest.mark.parametrize("text", ["", "version = 2", "what is this", "version = 1\ncluster = 3\nnodes = 1"])
def test_a_damaged_description_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.toml").write_text(text)
    with pytest.raises(UsageError, match=r"cluster\.toml cannot be understood"):
        open_layout(tmp_path)


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot use .*file"):
        open_layout(tmp_path / "file" / "c", 3)


@pytest.mark.parametrize(("nodes", "base"), [(0, None), (257, None), (3, 65_534), (3, 0)])
def test_impossible_sizes_and_ports_are_refused(tmp_path: Path, nodes: int, base: int | None) -> None:
    with pytest.raises(UsageError, match="must"):
        open_layout(tmp_path / "c", nodes, base)


def test_ports_that_another_program_has_are_named_and_passed_over(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "c", 1)
    port = layout.base_port
    busy = pytest.raises(UsageError, match=f"port {port} .* in use")
    with socket.create_server(("127.0.0.1", port)), busy:
        need_ports(layout, patience_s=0)
    need_ports(layout, patience_s=0)

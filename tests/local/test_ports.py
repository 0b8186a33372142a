"""Ports of clusters that start at the same time: each port is claimed once, also at a second start."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.local.layout import Layout, need_ports, open_layout
from thence.local.ports import HOST, claim, free_ports, release
from thence.local.stores import resp_base

OTHER = """
import sys
from pathlib import Path
from thence.local.layout import need_ports, open_layout
from thence.local.stores import resp_base
layout = open_layout(Path(sys.argv[1]), 3)
base = resp_base(layout, None)
need_ports(layout, base, patience_s=0)
print(base, *layout.ports, flush=True)
sys.stdin.read()
"""


def starting(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", OTHER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextmanager
def another_start(*processes: subprocess.Popen[bytes]) -> Iterator[list[list[int]]]:
    """Processes that have come as far as to start their nodes, none of which listens yet; their ports."""
    try:
        yield [[int(word) for word in process.stdout.readline().split()] for process in processes]  # type: ignore[union-attr]
    finally:
        for process in processes:
            process.communicate(timeout=60)


def opened(folder: Path) -> tuple[Layout, int]:
    layout = open_layout(folder, 3)
    return layout, resp_base(layout, None)


def test_a_kept_range_is_not_chosen_while_its_cluster_starts_again(tmp_path: Path) -> None:
    layout, base = opened(tmp_path / "kept")
    release(layout.folder)  # it was stopped
    with another_start(starting(layout.folder)) as [ports]:
        assert ports == [base, *layout.ports], "as they were"
        _, mine = opened(tmp_path / "new")
        assert abs(mine - base) >= 3
        assert claim(tmp_path / "new", layout.ports) in layout.ports
    release(tmp_path / "new")
    assert claim(tmp_path / "new", [base, *layout.ports]) is None, "gone with the process that claimed them"
    release(tmp_path / "new")


def test_two_starts_of_folders_that_keep_one_range_are_told_so(tmp_path: Path) -> None:
    one, base = opened(tmp_path / "one")
    release(one.folder)
    other = open_layout(tmp_path / "other", 3)
    (other.folder / "resp_base").write_text(f"{base}\n")  # it ran at another time
    with (
        another_start(starting(one.folder)),
        pytest.raises(UsageError, match=f"port {base} .* --resp-base moves the ports"),
    ):
        need_ports(other, resp_base(other, None), patience_s=0)
    need_ports(other, resp_base(other, None), patience_s=0)
    release(other.folder)


def test_many_starts_at_once_have_no_port_in_common(tmp_path: Path) -> None:
    with another_start(*(starting(tmp_path / str(at)) for at in range(4))) as ports:
        chosen = [port for base, *others in ports for port in (base, base + 1, base + 2, *others)]
    assert len(chosen) == len(set(chosen)) == 24


def test_a_range_is_claimed_whole_or_not_at_all(tmp_path: Path) -> None:
    start = free_ports(3)
    with socket.create_server((HOST, start + 2)):
        assert claim(tmp_path / "one", range(start, start + 3)) == start + 2
    assert claim(tmp_path / "other", range(start, start + 2)) is None
    assert claim(tmp_path / "one", range(start, start + 3)) == start
    release(tmp_path / "other")


def test_ports_of_one_cluster_do_not_overlap(tmp_path: Path) -> None:
    layout, base = opened(tmp_path / "one")
    with pytest.raises(UsageError, match="overlap"):
        resp_base(layout, layout.base_port + 2)
    assert resp_base(layout, None) == base, "refused before it is written"
    release(layout.folder)

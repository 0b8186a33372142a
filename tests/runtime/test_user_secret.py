"""The secret of nodes that are given none: made once, for its owner alone, or refused in a sentence."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import thence
from thence.core.errors import UsageError
from thence.runtime.sources import compose
from thence.runtime.user_secret import user_secret

HERE = {"name": "a", "listen": "127.0.0.1:7101", "data": "d"}


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    made = user_secret(home)
    path = tmp_path / ".local/state/thence/secret"
    assert path.read_bytes().strip() == made
    assert len(made) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["secret"]
    assert user_secret(home) == made
    assert compose(HERE, home).secret == made


def test_the_state_folder_counts_more_than_home_if_it_is_absolute(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}
    made = user_secret(state)
    assert (tmp_path / "state/thence/secret").read_bytes().strip() == made
    assert user_secret({**state, "XDG_STATE_HOME": "state"}) != made
    assert (tmp_path / "home/.local/state/thence/secret").exists()


def test_nodes_that_start_together_have_the_same_one(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(user_secret, [home] * 64))
    assert len(found) == 1


def test_one_that_is_made_meanwhile_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "thence/secret"
    link = os.link

    def late(new: Path, to: Path) -> None:
        path.write_text("x" * 64)
        path.chmod(0o600)
        link(new, to)

    monkeypatch.setattr(os, "link", late)
    assert user_secret({"XDG_STATE_HOME": str(tmp_path)}) == b"x" * 64
    assert [each.name for each in path.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_one_that_others_may_use_is_refused(mode: int, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    user_secret(state)
    (tmp_path / "thence/secret").chmod(mode)
    with pytest.raises(UsageError, match=f"others may use the secret in .*mode {mode:o}.*chmod 600") as told:
        compose(HERE, state)
    assert "\n" not in str(told.value)


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    user_secret(state)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(UsageError, match="no file of the user who runs this node: give one"):
        user_secret(state)


@pytest.mark.parametrize("contents", ["", "short\n"])
def test_one_that_is_too_short_is_refused(contents: str, tmp_path: Path) -> None:
    path = tmp_path / "thence/secret"
    path.parent.mkdir()
    path.write_text(contents)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="holds no secret of 16 bytes: remove it"):
        user_secret({"XDG_STATE_HOME": str(tmp_path)})


def test_a_link_to_elsewhere_or_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 64)
    (tmp_path / "thence").mkdir()
    (tmp_path / "thence/secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"cannot use .*/thence/secret as the secret .*`secret_file`"):
        user_secret({"XDG_STATE_HOME": str(tmp_path)})
    with pytest.raises(UsageError, match=r"cannot use .*elsewhere/thence/secret .*Not a directory"):
        user_secret({"XDG_STATE_HOME": str(tmp_path / "elsewhere")})


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_the_ways_out_are_named(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"without HOME .*--secret-file, THENCE_SECRET.*XDG_STATE_HOME"):
        compose(HERE, environment)
    assert compose(HERE, {**environment, "THENCE_SECRET": "given"}).secret == b"given"


@pytest.mark.parametrize("secret", ["none", "given by the program"])
def test_who_brings_one_needs_no_file(secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    thence.open("a", data=tmp_path / "a", secret=secret)
    assert list(tmp_path.iterdir()) == []
    thence.open("a", data=tmp_path / "a")
    assert [each.name for each in tmp_path.iterdir()] == ["thence"]

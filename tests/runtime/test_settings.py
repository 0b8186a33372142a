"""Settings of a node: where each value comes from, and that nothing is started by mistake."""

import re
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from thence.core.errors import UsageError
from thence.order.engines import ENGINES, PROBABILISTIC
from thence.replica.live import EDGE, SEPARATOR, VIEWLESS
from thence.runtime import sources
from thence.runtime.address import Address
from thence.runtime.group_machine import machine_settings
from thence.runtime.options import LinkSettings
from thence.runtime.profiles import PROFILES
from thence.runtime.settings import NodeSettings, Order, SpreadName
from thence.runtime.sources import KINDS, PARTS, of_words, variable_of
from thence.spread.spreads import SPREADS

HERE = {"name": "a", "listen": "127.0.0.1:7101", "data": "d"}
SECRET = "x" * 16
OF_THE_USER = b"that of the user"
compose = partial(sources.compose, default_secret=lambda _: OF_THE_USER)
"""No test needs a home; what is used there without a secret is in `test_user_secret.py`."""


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return path


def value_of(settings: NodeSettings, key: str) -> object:
    part, _, name = key.rpartition(".")
    return getattr(getattr(settings, part) if part else settings, name)


def test_three_words_are_enough_for_a_lone_node() -> None:
    settings = compose(HERE, {})
    assert settings.name == "a"
    assert settings.listen == Address("127.0.0.1", 7101)
    assert settings.data == Path("d")
    assert (settings.members, settings.join, settings.profile) == ((), (), "lan")
    assert settings.http == Address("127.0.0.1", 0), "a port that the system chooses, on this machine only"
    assert not settings.allow_faults
    assert not settings.insecure


def test_each_source_takes_precedence_over_those_behind_it(tmp_path: Path) -> None:
    """Flags, environment, file, profile, defaults: taken away one by one, the next one shows."""
    key = "links.silence_us"
    file = file_of(tmp_path, "profile = 'wan'\n[links]\nsilence_us = 3")
    environment = {"THENCE_LINKS_SILENCE_US": "2"}
    assert value_of(compose({**HERE, key: "1"}, environment, file), key) == 1
    assert value_of(compose(HERE, environment, file), key) == 2
    assert value_of(compose(HERE, {}, file), key) == 3
    assert value_of(compose({**HERE, "profile": "wan"}, {}), key) == PROFILES["wan"][key]
    assert value_of(compose(HERE, {}), key) == LinkSettings().silence_us


def test_the_profile_may_come_from_any_source_and_gives_way_to_all(tmp_path: Path) -> None:
    file = file_of(tmp_path, "profile = 'local'\n[mesh]\nwindow = 77")
    settings = compose(HERE, {"THENCE_PROFILE": "wan"}, file)
    assert settings.profile == "wan"
    assert settings.mesh.window == 77
    assert settings.mesh.window_bytes == PROFILES["wan"]["mesh.window_bytes"]


def test_a_file_says_everything_with_a_table_per_part(tmp_path: Path) -> None:
    settings = compose(
        {},
        {},
        file_of(
            tmp_path,
            f"""
            name = "b"
            data = "b"
            trace = "/traces"
            cluster = "test"
            secret = "{SECRET}"
            http = "none"
            allow_faults = true
            log_format = "json"
            [members]
            b = "127.0.0.1:7102"
            a = "127.0.0.1:7101"
            [stability]
            enabled = false
            [log]
            sync = "always"
            keep_bytes = 1_000_000
            """,
        ),
    )
    assert settings.members == (("a", Address("127.0.0.1", 7101)), ("b", Address("127.0.0.1", 7102)))
    assert settings.listen == Address("127.0.0.1", 7102), "its own line among the members"
    assert settings.data == tmp_path / "b", "paths start at the file's folder"
    assert settings.trace == Path("/traces")
    assert settings.secret == SECRET.encode()
    assert settings.http is None
    assert settings.allow_faults
    assert not settings.stability.enabled
    assert (settings.log.sync, settings.log.keep_bytes) == ("always", 1_000_000)


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    file = file_of(tmp_path, "name = 'c'\nlisten = '127.0.0.1:1'\ndata = 'c'")
    assert compose({}, {"THENCE_CONFIG": str(file)}).name == "c"


def test_every_key_can_be_set_in_the_environment() -> None:
    assert len({variable_of(key) for key in KINDS}) == len(KINDS), "two keys share a variable"
    environment = {
        "THENCE_NAME": "a",
        "THENCE_DATA": "d",
        "THENCE_MEMBERS": "b=127.0.0.1:2, a=127.0.0.1:1",
        "THENCE_ALLOW_FAULTS": "yes",
        "THENCE_LOG_LEVEL": "debug",
        "THENCE_LOG_SYNC": "no",
        "THENCE_LOG_KEEP_US": "none",
        "THENCE_DRAIN_US": "1_000",
    }
    settings = compose({}, environment)
    assert [name for name, _ in settings.members] == ["a", "b"]
    assert settings.allow_faults
    assert (settings.log_level, settings.log.sync, settings.log.keep_us) == ("debug", "no", None)
    assert settings.drain_us == 1000


def test_variables_of_others_are_none_of_a_nodes_business() -> None:
    """Kubernetes sets some for each service; one called `thence` must not stop a node of that name."""
    others = {"THENCE_JAVA": "system", "THENCE_TEST_BOOT": "1", "THENCE_PORT": "tcp://10.0.0.1:1",
              "THENCE_SERVICE_HOST": "10.0.0.1", "THENCE_A_PORT_7101_TCP_ADDR": "10.0.0.1",
              "PATH": "/bin"}  # fmt: skip
    assert compose(HERE, others) == compose(HERE, {})


def test_members_of_one_source_replace_join_of_a_weaker_one() -> None:
    environment = {"THENCE_JOIN": "127.0.0.1:9"}
    assert compose(HERE, environment).join == (Address("127.0.0.1", 9),)
    settings = compose({**HERE, "members": "a=127.0.0.1:7101"}, environment)
    assert (len(settings.members), settings.join) == (1, ())


def test_a_secret_comes_from_a_file_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(SECRET + "\n")
    settings = compose({**HERE, "secret_file": tmp_path / "s"}, {"THENCE_SECRET": "another one"})
    assert settings.secret == SECRET.encode()
    assert SECRET not in repr(settings), "settings are logged"


BAD = [
    ({"name": None}, {}, "", "--name"),
    ({"name": "a b"}, {}, "", "'a b' is no name"),
    ({"name": "~"}, {}, "", "no name"),
    ({"data": None}, {}, "", "THENCE_DATA"),
    ({"listen": None}, {}, "", "--listen"),
    ({"listen": "nowhere"}, {}, "", "--listen: 'nowhere' is no address"),
    ({"members": "b=127.0.0.1:2"}, {}, "", "must name a as well"),
    ({"members": "a"}, {}, "", "--members: must be NAME=HOST:PORT"),
    ({"members": "a=127.0.0.1:1,a=127.0.0.1:2"}, {}, "", "names a twice"),
    ({"members": "a=127.0.0.1:1,b=127.0.0.1:1"}, {}, "", "both be at 127.0.0.1:1"),
    ({"members": "a=127.0.0.1:1,b=127.0.0.1:0"}, {}, "", "need a port"),
    ({"members": "a=127.0.0.1:1", "join": ["127.0.0.1:2"]}, {}, "", "--members: give this or join"),
    ({"join": ["127.0.0.1:2"], "listen": "127.0.0.1:0"}, {}, "", "listen needs a port"),
    ({"join": []}, {}, "", "--join: must be a list"),
    ({"log.sync": "sometimes"}, {}, "", "--sync: must be always or everysec or no"),
    ({"links.silence_us": "soon"}, {}, "", "--set links.silence_us: must be a whole number"),
    ({"links.backoff_first_us": "9000000"}, {}, "", "links.backoff_first_us must not be more"),
    ({"mesh.window": "0"}, {}, "", "mesh.window must be positive"),
    ({"secret": SECRET}, {}, "", "seen by all users"),
    ({"secret_file": "/nonexistent"}, {}, "", "cannot read the secret in /nonexistent"),
    ({"cluster": " x"}, {}, "", "cluster"),
    ({}, {"THENCE_NMAE": "a"}, "", "environment, THENCE_NMAE: there is no such setting"),
    ({}, {"THENCE_INSECURE": "perhaps"}, "", "environment, THENCE_INSECURE: must be true or false"),
    ({}, {"THENCE_CONFIG": "/nonexistent.toml"}, "", "cannot read /nonexistent.toml"),
    ({}, {}, "nmae = 'a'", "node.toml, nmae: there is no such setting; there is name"),
    ({}, {}, "[links]\nsilence = 1", "there is links.silence_us"),
    ({}, {}, "[links]\nsilence_us = '1'", "node.toml, links.silence_us: must be a whole number, not '1'"),
    ({}, {}, "[links]\nsilence_us = true", "must be a whole number"),
    ({}, {}, "links = 3", "node.toml, links: must be a table"),
    ({}, {}, "members = 'a=127.0.0.1:1'", "must be a table of names"),
    ({}, {}, "insecure = 'yes'", "node.toml, insecure: must be true or false"),
    ({}, {}, "profile = 'moon'", "must be local or lan or wan"),
    ({}, {}, "secret = 'x'\nsecret_file = 'y'", "node.toml, secret: give this or secret_file"),
    ({}, {}, "name = ", "is no TOML"),
]


@pytest.mark.parametrize(("flags", "environment", "file", "complaint"), BAD)
def test_what_was_not_understood_is_one_line_that_names_the_source(
    flags: dict[str, object], environment: dict[str, str], file: str, complaint: str, tmp_path: Path
) -> None:
    config = file_of(tmp_path, file) if file else None
    with pytest.raises(UsageError) as raised:
        compose({**HERE, **flags}, environment, config)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "far",
    [
        {"listen": "0.0.0.0:7101", "advertise": "node.example:7101"},
        {"advertise": "node.example:7101"},
        {"http": "192.0.2.1:80"},
        {"members": "a=127.0.0.1:7101,b=192.0.2.1:7101"},
        {"join": ["node.example:7101"]},
    ],
)
def test_nothing_leaves_the_machine_unasked_nor_without_a_secret(far: dict[str, object]) -> None:
    asked = {**HERE, **far}
    with pytest.raises(UsageError, match="--insecure"):
        compose(asked, {"THENCE_SECRET": SECRET})
    with pytest.raises(UsageError, match="secret"):
        compose({**asked, "insecure": True}, {})
    with pytest.raises(UsageError, match="at least 16 bytes"):
        compose({**asked, "insecure": True}, {"THENCE_SECRET": "guessable"})
    assert compose({**asked, "insecure": True}, {"THENCE_SECRET": SECRET}).insecure


@pytest.mark.parametrize(("word", "complaint"), [("a", "KEY=VALUE"), ("windw=1", "no such setting")])
def test_set_takes_known_keys_only(word: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        of_words([word])


def test_set_takes_each_key_once() -> None:
    assert of_words(["mesh.window=5", "links.silence_us=6"]) == {"mesh.window": "5", "links.silence_us": "6"}
    with pytest.raises(UsageError, match="given twice"):
        of_words(["mesh.window=5", "mesh.window=6"])


def test_without_a_secret_a_node_has_that_of_its_user_and_with_none_it_says_so() -> None:
    assert compose(HERE, {}).secret == OF_THE_USER
    assert compose(HERE, {}).warnings == []
    for settings in (compose({**HERE, "secret": "none"}, {}), compose(HERE, {"THENCE_SECRET": "none"})):
        assert settings.secret == b""
        assert "any process on this machine" in settings.warnings[0]
    far = {**HERE, "listen": "192.0.2.1:7101", "insecure": True}
    with pytest.raises(UsageError, match="at least 16 bytes"):
        compose(far, {"THENCE_SECRET": "none"})


def test_settings_do_not_change_once_made() -> None:
    with pytest.raises(FrozenInstanceError):
        compose(HERE, {}).name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_changes_what_exists_and_nothing_that_stays_the_same(profile: str) -> None:
    base, changed = compose(HERE, {}), compose({**HERE, "profile": profile}, {})
    for key, value in PROFILES[profile].items():  # type: ignore[index]
        assert value_of(changed, key) == value != value_of(base, key)


def test_orders_and_spreads_are_those_that_exist() -> None:
    """This room may not ask the rooms that have them."""
    assert get_args(Order) == (*ENGINES, PROBABILISTIC, SEPARATOR)
    assert set(get_args(SpreadName)) <= {*SPREADS, *VIEWLESS, EDGE}
    assert all(name in PARTS for name in ("links", "mesh", "stability", "application", "log"))


def test_the_page_tells_every_key_and_the_numbers_of_every_profile() -> None:
    page = (Path(__file__).parents[2] / "docs" / "SETTINGS.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \|(.*)\|$", page, re.MULTILINE))
    assert set(rows) == set(KINDS)
    for key in {key for profile in PROFILES.values() for key in profile}:
        told = [int(cell.replace(",", "")) for cell in rows[key].split("|")[:3]]
        wanted = [value_of(compose({**HERE, "profile": name}, {}), key) for name in ("local", "lan", "wan")]
        assert told == wanted, key


def test_a_changing_group_waits_as_long_as_its_profile_says_before_others_pass_on() -> None:
    waits = [
        machine_settings(compose({**HERE, "profile": name}, {}), closed=False).relay_us for name in PROFILES
    ]
    assert waits == [compose({**HERE, "profile": name}, {}).mesh.relay_after_us for name in PROFILES]
    assert len(set(waits)) == 3


def test_clocks_are_of_order_probabilistic_alone() -> None:
    settings = compose({**HERE, "order": "probabilistic", "clock.entries": 50, "clock.keys": 3}, {})
    assert (settings.spread, settings.clock.entries, settings.clock.keys) == ("gossip", 50, 3)
    assert compose({**HERE, "spread": "gossip"}, {}).order == "probabilistic"
    with pytest.raises(UsageError, match="is for order probabilistic, not vector"):
        compose({**HERE, "order": "vector", "clock.keys": 3}, {})
    with pytest.raises(UsageError, match=r"clock\.keys must be between 1 and the 2 entries, not 3"):
        compose({**HERE, "order": "probabilistic", "clock.entries": 2, "clock.keys": 3}, {})

"""What a program sees of its node beside messages: where others reach it, records of `logging`, and errors
that speak of arguments."""

import logging
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree
from support.open_nodes import run

import thence
from thence import ApplicationError, UsageError
from thence.runtime.program_log import ProgramLog
from thence.runtime.sources import compose

SECRET = "a secret that no client guesses"
FAR: dict[str, object] = {"insecure": True}


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


# Where others reach it


def test_a_node_that_listens_everywhere_is_reached_where_it_says(group: Changing) -> None:
    """c joins through b and hears from it where a is."""

    async def story() -> None:
        port = group.at["a"].rpartition(":")[2]
        everywhere = group.open(
            "a", listen=f"0.0.0.0:{port}", advertise=group.at["a"], secret=SECRET, settings=FAR,
            application=Journal(),
        )  # fmt: skip
        books = [Journal(), Journal()]
        async with (
            everywhere as a,
            group.open("b", join="a", secret=SECRET, application=books[0]) as b,
            group.open("c", join="b", secret=SECRET, application=books[1]) as c,
        ):
            await a.broadcast(b"hello")
            await agree(a, b, c)
            for node in (a, b, c):
                assert {one.name: one.address for one in node.status().members}["a"] == group.at["a"]
            assert books[0].lines == books[1].lines == ["hello"]

    run(story)


def test_without_a_port_it_is_the_one_that_the_node_listens_on(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a", listen="127.0.0.1:0", advertise="localhost:0") as a:
            [me] = a.status().members
            assert me.address.startswith("localhost:")
            assert not me.address.endswith(":0")

    run(story)


@pytest.mark.parametrize("listen", ["0.0.0.0:7101", "[::]:7101"])
def test_everywhere_is_no_place_to_be_reached_at(tmp_path: Path, listen: str) -> None:
    with pytest.raises(UsageError, match=r"others cannot reach a node at .*: advertise says where"):
        thence.open("a", data=tmp_path, listen=listen, secret=SECRET, settings=FAR)


def test_a_closed_group_says_itself_where_its_members_are(tmp_path: Path) -> None:
    members = {"a": "10.0.0.1:7101", "b": "10.0.0.2:7101"}
    node = thence.open(
        "a", data=tmp_path, listen="0.0.0.0:7101", members=members, secret=SECRET, settings=FAR
    )
    assert node.settings.advertise is None
    with pytest.raises(UsageError, match="members says where this node is reached: leave advertise away"):
        thence.open(
            "a", data=tmp_path, members=members, advertise="10.0.0.9:1", secret=SECRET, settings=FAR
        )  # fmt: skip


# Errors that speak of arguments


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"listen": "nowhere"}, "listen: 'nowhere' is no address"),
        ({"advertise": "nowhere"}, "advertise: 'nowhere' is no address"),
        ({"join": ["here"]}, "join: 'here' is no address"),
        ({"sync": "sometimes"}, "sync: "),
        ({"order": "random"}, "order: "),
        ({"listen": "192.0.2.1:7101"}, r"settings\['insecure'\] says that you want it"),
        ({"listen": "192.0.2.1:7101", "settings": FAR}, r"\(secret, THENCE_SECRET or"),
        ({"settings": {"links.silence_us": 0}}, "links.silence_us must be positive"),
        ({"settings": {"windw": 1}}, r"settings\['windw'\]: there is no such setting"),
        ({"settings": {"mesh.window": "many"}}, r"settings\['mesh.window'\]: "),
        ({"members": {"b": "127.0.0.1:7101"}}, "listen HOST:PORT, or its own name among members"),
    ],
)
def test_a_mistake_is_told_by_its_argument(
    tmp_path: Path, arguments: dict[str, object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as raised:
        thence.open("a", data=tmp_path, **arguments)  # type: ignore[arg-type]
    assert "--" not in str(raised.value)
    assert "`" not in str(raised.value)


def test_a_command_line_is_told_of_flags() -> None:
    with pytest.raises(UsageError, match="a node needs --listen HOST:PORT, or its own name among --members"):
        compose({"name": "a", "data": "d"}, {})


# Records


def test_a_node_of_a_program_tells_the_standard_logging(
    group: Changing, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        with caplog.at_level(logging.INFO, "thence"):
            async with group.open("a"):
                pass

    run(story)
    [running] = [record for record in caplog.records if getattr(record, "event", "") == "running"]
    assert running.name == "thence"
    assert running.levelno == logging.INFO
    assert running.getMessage().startswith("running node=a ")
    assert vars(running)["fields"]["node"] == "a"
    assert capfd.readouterr().err == "", "and nothing but that"


def test_what_is_below_the_level_of_either_is_no_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "thence"):
        ProgramLog("debug").info("quiet")
        ProgramLog("debug").warn("loud", why="it matters")
        ProgramLog("error").warn("not wanted")
    assert [record.getMessage() for record in caplog.records] == ['loud why="it matters"']


def test_nothing_that_a_handler_does_reaches_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError(record.getMessage())

    class Odd:
        def __str__(self) -> str:
            raise ValueError("no text")

    logger, broken = logging.getLogger("thence"), Broken()
    logger.addHandler(broken)
    try:
        ProgramLog("info").error("it goes on", why="whatever")
        ProgramLog("info").error("it goes on", why=Odd())
    finally:
        logger.removeHandler(broken)
    assert capsys.readouterr().err == "cannot log 'it goes on'\n" * 2


def test_what_a_program_raises_is_the_cause_of_what_it_is_told(group: Changing) -> None:
    class Fails(Journal):
        def apply(self, event: thence.Delivered) -> None:
            raise KeyError(event.payload)

    async def story() -> None:
        node = group.open("a", application=Fails())
        a = await node.__aenter__()
        with pytest.raises(ApplicationError):
            await a.broadcast(b"x")
        with pytest.raises(ApplicationError, match=r"the program's apply\(\) raised KeyError") as raised:
            await node.__aexit__(None, None, None)
        cause: BaseException | None = raised.value
        while cause is not None and not isinstance(cause, KeyError):
            cause = cause.__cause__
        assert isinstance(cause, KeyError)

    run(story)

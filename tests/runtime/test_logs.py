"""Unit and fault: the log that never makes a node wait, and says what it could not tell."""

import io
import json
import re
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.errors import UsageError
from thence.runtime.logs import LogEvent, NodeLog, StructuredLog, as_json, as_text


class Gate(io.StringIO):
    """A stream that takes nothing until it is opened, like a pipe without a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.reached = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.open.wait(10)
        return super().write(text)


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_an_event_is_one_readable_line() -> None:
    stream = io.StringIO()
    log = StructuredLog("info", "text", stream)
    log.info("link_up", peer="b", address="127.0.0.1:7102", reconnects=3)
    log.warn("refused", peer="c", why='another cluster: "x"\nreally', fatal=True, since_s=0.5, code=None)
    log.close()
    first, second = lines(stream)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info  link_up peer=b address=127.0.0.1:7102 reconnects=3",
        first,
    )
    assert second.endswith(
        r'warn  refused peer=c why="another cluster: \"x\"\nreally" fatal=yes since_s=0.5 code=-'
    )


def test_json_lines_are_for_programs() -> None:
    stream = io.StringIO()
    log = StructuredLog("info", "json", stream)
    log.error("sync_failed", file="log-1", bytes=5, level="mine", ratio=float("nan"), raw=b"\x00\xff")
    log.close()
    told = json.loads(stream.getvalue())
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "error", "event": "sync_failed", "file": "log-1", "bytes": 5, "level_": "mine",
        "ratio": "nan", "raw": "00ff",
    }  # fmt: skip


def test_levels_below_the_one_asked_for_are_not_told() -> None:
    stream = io.StringIO()
    log = StructuredLog("warn", "text", stream)
    log.debug("a")
    log.info("b")
    log.warn("c")
    log.error("d")
    log.close()
    assert [line.split()[2] for line in lines(stream)] == ["c", "d"]


def test_a_stuck_stream_costs_events_and_not_the_node_and_the_log_says_how_many() -> None:
    stream = Gate()
    log = StructuredLog("info", "json", stream, limit=5)
    log.info("first")
    assert stream.reached.wait(10)
    for number in range(20):
        log.info("next", number=number)
    stream.open.set()
    log.close()
    told = [json.loads(line) for line in lines(stream)]
    assert [line.get("number") for line in told if line["event"] == "next"] == [0, 1, 2, 3, 4]
    assert [line["count"] for line in told if line["event"] == "log_events_dropped"] == [15]


def test_a_stream_that_is_gone_does_not_trouble_the_node() -> None:
    log = StructuredLog("info", "text", Gone())
    log.info("a line")
    log.close()
    log.info("after the end")
    assert log.lost == 1


def test_an_event_is_told_as_it_was_at_the_call() -> None:
    stream = Gate()
    log = StructuredLog("info", "json", stream)
    log.info("first")
    assert stream.reached.wait(10)
    peers = ["b"]
    log.info("view", peers=peers)
    peers.append("c")
    stream.open.set()
    log.close()
    assert json.loads(lines(stream)[1])["peers"] == "['b']"


def test_a_value_that_cannot_be_shown_or_is_endless_is_still_told() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ZeroDivisionError

    stream = io.StringIO()
    log = StructuredLog("info", "json", stream)
    log.info("odd", thing=Odd(), reason="x" * 1_000_000)
    log.close()
    told = json.loads(stream.getvalue())
    assert told["thing"] == "<Odd: ZeroDivisionError>"
    assert len(told["reason"]) < 3_000


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_event_that_cannot_be_written_does_not_end_the_log(form: str) -> None:
    """Python refuses to write numbers of thousands of digits."""
    stream = io.StringIO()
    log = StructuredLog("info", form, stream)
    log.info("huge", number=10**5000)
    log.info("next")
    log.close()
    huge, after = lines(stream)
    assert "fields_lost" in huge
    assert "next" in after


def test_nothing_is_lost_at_a_normal_exit_without_close() -> None:
    program = (
        "import sys\n"
        "from thence.runtime.logs import StructuredLog\n"
        "log = StructuredLog('info', 'json', sys.stdout)\n"
        "for number in range(5000): log.info('event', number=number)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [json.loads(line)["number"] for line in done.stdout.splitlines()] == list(range(5000))
    assert done.stderr == ""


@given(
    st.text(),
    st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.floats() | st.none() | st.booleans()),
)
def test_no_event_breaks_its_line(event: str, fields: dict[str, object]) -> None:
    """A peer chooses its name and its reasons; it must not get to write lines of our log."""
    told = LogEvent(0, "info", event, fields)
    for line in (as_text(told), as_json(told)):
        assert line.isascii()
        assert line.isprintable()
    assert json.loads(as_json(told))["event"] == event


def test_misuse_is_refused_and_it_is_a_log() -> None:
    for level, form in (("loud", "text"), ("info", "xml")):
        with pytest.raises(UsageError, match="there is no log"):
            StructuredLog(level, form, io.StringIO())
    log: NodeLog = StructuredLog("info", "text", io.StringIO())
    log.info("fits")

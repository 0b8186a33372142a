"""`thence demo` as a person meets it, in short: real processes, real Spark, and Ctrl-C at bad moments."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.processes import eventually

from thence.core.errors import UsageError
from thence.lab.demo import Tour
from thence.lab.tour.claims import Claims
from thence.lab.tour.pace import Pace
from thence.pipeline.where import Where

PROGRAM = """
import signal, sys
from pathlib import Path
from thence.cli import main
from thence.lab import demo
from thence.lab.tour.pace import Pace
from thence.pipeline.where import Where
pace = Pace(rate=50, calm_s=0.5, cut_s=1, down_s=0.5, after_s=0.3)
main.app.command("short")(lambda: sys.exit(demo.run(Path(sys.argv[1]), Where(master="local[2]"), pace)))
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main.main(["short"]))
"""
"""It hears an interrupt wherever the tests were started: shells without a terminal let what they start in the
background ignore it (`make test &`)."""


class Running:
    """A short tour in a session of its own, by which its processes can be told."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def until(self, words: str) -> None:
        """Read until a line has these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return
        raise AssertionError(f"never said {words!r}: {self.process.communicate()[1]}")

    def left(self) -> list[int]:
        """Processes of its session, itself not counted."""
        return [pid for pid in _session(self.process.pid) if pid != self.process.pid]


def _session(number: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == number and state != "Z":
                yield int(entry.name)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "out")
    yield made
    for pid in _session(made.process.pid):
        os.kill(pid, signal.SIGKILL)
    made.process.communicate()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_everything_holds_and_becomes_a_page(running: Running, tmp_path: Path) -> None:
    told, complaints = running.process.communicate()
    assert (running.process.returncode, complaints) == (0, ""), told
    assert "✗" not in told
    assert told.endswith("Everything held.\n")
    for words in (
        "all 5 know each other as members",
        "c caught up",
        "is a member again, as d~2",
        "its process ended: exit code 0",
        "b came back from its log, boot 2",
        "others took its place",
        "the counter has every increment",
        "the counter is exact",
        "joins and answers the same",
        "no violation of any kind",
        "tag: the tag of",
    ):
        assert words in told
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 4
    assert page.count('<td class="name" data-of="trace">') == 4
    assert "Everything held." in page
    eventually(lambda: not running.left())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "moment", ["1. A group", "3. c is cut off", "5. d falls", "8. 8 processes", "9. Redis", "10. Spark"]
)
def test_an_interrupt_at_any_moment_leaves_no_process_behind(running: Running, moment: str) -> None:
    running.until(moment)
    os.kill(running.process.pid, signal.SIGINT)
    _, complaints = running.process.communicate()
    assert (running.process.returncode, complaints) == (130, "thence: interrupted\n")
    eventually(lambda: not running.left())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_trace_with_an_effect_before_its_cause_is_a_claim_that_did_not_hold(
    tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "mine.csv").write_text(
        "node,pos,kind,origin,seq\n"
        "a,1,send,a,1\nb,1,deliver,a,1\nb,2,send,b,1\nc,1,deliver,b,1\nc,2,deliver,a,1\na,2,deliver,b,1\n"
    )
    tour = Tour(tmp_path, Where(master=spark.conf.get("spark.master")), Pace())
    tour.judge()
    [step] = tour.claims.steps
    assert not tour.claims.held
    assert step.claims[0] == ("2 messages, 4 deliveries: 1 order", False)


def test_one_claim_that_did_not_hold_is_enough() -> None:
    claims = Claims()
    claims.step("one", "one")
    claims.claim("this holds", True)
    claims.claim("this does not", False)
    claims.step("two", "two")
    claims.claim("nor does that matter", True)
    assert not claims.held
    assert [step.held for step in claims.steps] == [1, 1]


def test_claims_that_all_held_have_held() -> None:
    claims = Claims()
    claims.step("one", "one")
    claims.claim("this holds", True)
    assert claims.held


def test_a_tour_that_claimed_nothing_has_not_held() -> None:
    claims = Claims()
    claims.step("one", "one")
    assert not claims.held


def test_a_group_that_is_too_small_for_the_tour_is_refused() -> None:
    with pytest.raises(UsageError, match="five nodes"):
        Pace(nodes=4)

"""Real data: a document that two people typed at once, 26,078 transactions with their direct predecessors.

The recorded predecessors were made by another system. They are exactly what a transitively reduced context
must be, so they test tagging, tags and verification against the world outside.
"""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from thence.check.oracle import judge
from thence.core.dots import origin_of, seq_of
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engines import ENGINES
from thence.trace.schema import Dot, Event

RECORDING = Path(__file__).parents[3] / "shared" / "data" / "friendsforever.json.gz"

pytestmark = pytest.mark.skipif(
    not RECORDING.exists(), reason="the recorded editing session is not part of the project"
)


class Replayed:
    """The session acted out by two clients: each takes what a transaction follows from, then makes it."""

    def __init__(self) -> None:
        transactions = json.loads(gzip.decompress(RECORDING.read_bytes()))["txns"]
        graph = ENGINES["graph"]
        assert graph.witness
        self.parents = [tuple(one["parents"]) for one in transactions]
        self.agents = [one["agent"] for one in transactions]
        self.taggers = [graph.tagger(me, 2) for me in range(2)]
        self.witnesses = [graph.witness(me, 2) for me in range(2)]
        self.messages: list[Message] = []
        self.number: dict[int, int] = {}
        self.made: list[list[int]] = [[], []]
        self.taken = [0, 0]
        self.seen: list[list[int]] = [[], []]
        self.tags: list[dict[int, Tag]] = [{}, {}]
        self.vectors: list[tuple[int, int]] = []
        for number in range(len(transactions)):
            self._make(number)

    def _make(self, number: int) -> None:
        me = self.agents[number]
        past = [0, 0]
        for parent in self.parents[number]:
            past = [max(pair) for pair in zip(past, self.vectors[parent], strict=True)]
        self._take(me, past[1 - me])
        message = self.taggers[me].tag(b"")
        past[me] += 1
        assert seq_of(message.dot) == past[me], "an author follows from all that it wrote before"
        self.vectors.append((past[0], past[1]))
        self.messages.append(message)
        self.number[message.dot] = number
        self.made[me].append(number)
        self._see(me, number)

    def _take(self, me: int, upto: int) -> None:
        """Take the other's transactions, in order, as far as this one follows from them."""
        for number in self.made[1 - me][self.taken[me] : upto]:
            self.taggers[me].took(self.messages[number])
            self._see(me, number)
        self.taken[me] = max(self.taken[me], upto)

    def _see(self, me: int, number: int) -> None:
        self.seen[me].append(number)
        self.tags[me][number] = self.witnesses[me].see(self.messages[number])
        self.witnesses[me].sweep()

    def precedes(self, one: int, other: int) -> bool:
        dot = self.messages[one].dot
        return one != other and self.vectors[other][origin_of(dot)] >= seq_of(dot)


@pytest.fixture(scope="module")
def session() -> Replayed:
    return Replayed()


def test_contexts_are_the_recorded_predecessors(session: Replayed) -> None:
    for message, parents in zip(session.messages, session.parents, strict=True):
        assert {session.number[dot] for dot in message.context} == set(parents)


def test_tags_compare_as_the_recording_says(session: Replayed) -> None:
    rng = Random(1)
    for me in range(2):
        tags, seen = session.tags[me], session.seen[me]
        near = [(a, b) for a, b in pairwise(seen) if rng.random() < 0.3]
        far = [(rng.choice(seen), rng.choice(seen)) for _ in range(5000)]
        for a, b in near + far:
            assert tags[a].before(tags[b]) == session.precedes(a, b)
            related = a == b or session.precedes(a, b) or session.precedes(b, a)
            assert tags[a].concurrent(tags[b]) == (not related)


def test_the_session_is_a_correct_trace(session: Replayed) -> None:
    """The first two thousand events, judged from what happened alone: the recorded predecessors as tags."""
    events = []
    for me, seen in enumerate(session.seen):
        for pos, number in enumerate(seen[:1000]):
            dot = session.messages[number].dot
            own = session.agents[number] == me
            deps = [
                Dot(f"p{session.agents[n]}", seq_of(session.messages[n].dot)) for n in session.parents[number]
            ]
            events.append(
                Event(
                    node=f"p{me}",
                    pos=pos,
                    kind="send" if own else "deliver",
                    origin=f"p{origin_of(dot)}",
                    seq=seq_of(dot),
                    deps=deps if own else None,
                )
            )
    [verdict] = judge(events)
    broken = {name: count for name, count in verdict.violations.items() if count and name != "lost"}
    assert broken == {}
    assert verdict.violations["lost"] > 0, "the cut leaves messages under way"

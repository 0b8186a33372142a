"""Sets of incarnations as spans of numbers, beside sets that name each."""

from itertools import pairwise
from random import Random

from thence.core.groups import incarnation
from thence.members.spans import RECENT, Spans


def test_spans_are_the_set_of_what_was_added() -> None:
    random = Random(1)
    for _ in range(200):
        spans, names = Spans(), set[tuple[str, int]]()
        for _ in range(random.randrange(12)):
            process, low = random.choice("ab"), random.randrange(1, 20)
            high = low + random.randrange(-1, 4)
            spans.add(process, low, high)
            names |= {(process, number) for number in range(low, high + 1)}
        for process in "abc":
            mine = {number for owner, number in names if owner == process}
            assert {n for n in range(1, 30) if incarnation(process, n) in spans} == mine
            assert spans.top(process) == max(mine, default=0)
            free = {n for low, high in spans.below(process, 15) for n in range(low, high + 1)}
            assert free == set(range(1, 15)) - mine
        assert list(Spans(spans)) == list(spans)
        assert all(later[1] > high + 1 for (owner, _, high), later in _neighbours(spans) if owner == later[0])


def _neighbours(spans: Spans) -> list[tuple[tuple[str, int, int], tuple[str, int, int]]]:
    found = list(spans)
    return list(pairwise(found))


def test_what_lies_side_by_side_is_one_span() -> None:
    spans = Spans()
    for number in range(1, 1001):
        spans.add("a", number, number)
    assert list(spans) == [("a", 1, 1000)]
    assert len(spans) == 1


def test_a_node_that_is_told_what_has_come_since_knows_all_of_it() -> None:
    """However long ago it was told last: then it is told everything."""
    random = Random(2)
    spans, told, version = Spans(), Spans(), 0
    for turn in range(3000):
        spans.add(f"p{random.randrange(400)}", turn // 10 + 1, turn // 10 + 1)
        if random.random() < (0.01 if turn < 1500 else 0.002):
            for span in spans.since(version):
                told.add(*span)
            version = spans.version
            assert told.all == spans.all == tuple(spans)
            assert spans.since(version) == ()
    assert version > RECENT


def test_what_is_known_already_is_not_told_again() -> None:
    spans = Spans([("a", 1, 5)])
    version = spans.version
    spans.add("a", 2, 4)
    assert spans.since(version) == ()
    spans.add("b", 1, 1)
    assert spans.since(version) == (("b", 1, 1),)

"""The compiled clocks do what the engine does, event for event, and count what exact pasts count."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from thence.core.dots import ORIGIN_MASK
from thence.core.errors import UsageError
from thence.core.machine import Doubt
from thence.core.message import Message
from thence.experiments import clocks as module
from thence.experiments import prob
from thence.experiments.clocks import (
    COVERED,
    DELIVERIES,
    DOUBTS,
    EARLY,
    ERRORS,
    LATE,
    Clocks,
    MessageBlock,
    Traffic,
    measure,
)
from thence.order.keys import drawn
from thence.order.probabilistic import probabilistic


def events(traffic: Traffic, messages: int) -> Iterator[tuple[int, int, bool]]:
    """Node, number of a message, and whether it is sent, in the order of time."""
    found = []
    blocks = list(traffic.blocks(messages))
    times, senders = (
        np.concatenate([getattr(each, name) for each in blocks]) for name in ("times", "senders")
    )
    arrivals = np.concatenate([each.arrivals for each in blocks])
    for number, (time, sender) in enumerate(zip(times, senders.tolist(), strict=True)):
        found.append((time, sender, number, True))
        found += [(arrivals[number, to], to, number, False) for to in range(traffic.nodes) if to != sender]
    return ((node, number, sent) for _, node, number, sent in sorted(found))


def by_the_engine(traffic: Traffic, entries: int, keys: int, messages: int) -> list[tuple[int, int, int]]:
    """Node, number and flags of every release, by node."""
    size = traffic.nodes
    engine = probabilistic(entries, keys, 0, drawn(entries, keys, traffic.seed))
    taggers = [engine.tagger(me, size) for me in range(size)]
    orderers = [engine.orderer(me, size) for me in range(size)]
    sent: dict[int, Message] = {}
    numbers: dict[int, int] = {}
    pasts: dict[int, set[int]] = {}
    held: list[set[int]] = [set() for _ in range(size)]
    known: list[set[int]] = [set() for _ in range(size)]
    log = []
    for me, number, own in events(traffic, messages):
        if own:
            message = sent[number] = taggers[me].tag(b"")
            numbers[message.dot] = number
            pasts[message.dot] = set(known[me])
            held[me].add(message.dot)
            known[me].add(message.dot)
            effects = orderers[me].sent(message, 0)
        else:
            message = sent[number]
            effects = orderers[me].receive(message, message.dot & ORIGIN_MASK, 0)
        doubted = {effect.dot for effect in effects if isinstance(effect, Doubt)}
        for effect in effects:
            if isinstance(effect, Message):
                flags = EARLY * bool(pasts[effect.dot] - held[me]) + COVERED * (effect.dot in doubted)
                held[me].add(effect.dot)
                known[me] |= pasts[effect.dot] | {effect.dot}
                taggers[me].took(effect)
                log.append((me, numbers[effect.dot], flags))
    return sorted(log, key=lambda release: release[0])


@pytest.mark.parametrize(
    ("nodes", "entries", "keys", "interval"),
    [(8, 6, 2, 60.0), (12, 20, 3, 200.0), (5, 1, 1, 50.0), (6, 9, 9, 80.0)],
)
def test_kernel_and_engine_agree_event_for_event(
    nodes: int, entries: int, keys: int, interval: float
) -> None:
    for seed in (1, 2):
        traffic = Traffic(nodes=nodes, interval=interval, skew=60.0, seed=seed)
        clocks = Clocks(nodes, entries, keys, seed, log=150 * nodes)
        for block in traffic.blocks(150):
            clocks.run(block)
        ours = by_the_engine(traffic, entries, keys, 150)
        log = [tuple(row) for row in clocks.log[: clocks.counts[module.LOGGED]].tolist()]
        assert sorted(log, key=lambda release: release[0]) == ours
        assert clocks.counts[DELIVERIES] == 150 * (nodes - 1)
        assert clocks.counts[ERRORS] == sum(flags & EARLY for *_, flags in ours) > 0
        assert clocks.counts[LATE] == sum(flags & COVERED > 0 for *_, flags in ours)
        assert clocks.waiting == 0


def test_blocks_do_not_change_what_happens() -> None:
    traffic = Traffic(nodes=8, interval=50.0, skew=60.0)
    found = []
    for size in (64, 8, 1):
        clocks = Clocks(8, 6, 2)
        for block in traffic.blocks(200, size):
            clocks.run(block)
        found.append(clocks.counts.tolist())
    assert found[0] == found[1] == found[2]
    assert found[0][ERRORS] > 0


def test_a_load_that_does_not_fit_is_told() -> None:
    with pytest.raises(UsageError, match="too high for the kernel"):
        measure(Traffic(nodes=3, interval=0.01, skew=5.0), 10, 2, 20_000)


def test_a_point_of_the_keys_experiment(tmp_path: Path) -> None:
    [point] = [point for point in prob.points(prob.KEYS, quick=True) if point.name == "50-4-1"]
    result = prob.run_clocks(point, tmp_path)
    assert result["complete"]
    assert 0 < result["errors"] < result["late"] < result["deliveries"]
    assert 0.2 < prob.expected(result).errors / result["share"] < 5
    drawn = prob.draw(prob.KEYS, [result])
    assert drawn.title == "Errors by the number of keys"
    _, rows = prob.beside(prob.KEYS, [result])
    assert rows[0]["keys"] == "4 (best)"


@pytest.mark.parametrize("experiment", [prob.BY_RATE, prob.BY_NODES, prob.CONSTANT])
def test_points_around_the_documents_system(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prob, "NODES", 20)
    monkeypatch.setattr(prob, "INTERVAL", 100.0)
    monkeypatch.setattr(prob, "INTERVALS", (50.0, 100.0))
    monkeypatch.setattr(prob, "AROUND", (10, 20))
    monkeypatch.setattr(prob, "QUICK_AROUND", 5_000)
    points = prob.points(experiment, quick=True)
    results = [prob.run_clocks(point, tmp_path) for point in points]
    assert len({point.name for point in points}) == 2 * prob.QUICK_SEEDS
    for result in results:
        assert result["complete"]
        assert 0 <= result["least"] <= result["share"]
        assert result["least"] <= result["most"]
    assert prob.draw(experiment, results).title
    _, rows = prob.beside(experiment, results)
    assert len(rows) == 2


def test_the_documents_judge_counts_what_it_cannot_judge() -> None:
    """Section 5.4.1: a vector is not ready for an early message, and has counted the late one before it
    comes. Exact pasts know that the late one is in order."""
    clocks = Clocks(4, 1, 1, log=20)
    never = np.inf
    arrivals = [[never, 2.0, never, 7.0], [never, never, never, 6.0], [never, never, never, 5.0]]
    clocks.run(MessageBlock(np.array([1.0, 3.0, 4.0]), np.array([0, 1, 2]), np.array(arrivals), 10.0))
    released = [tuple(row) for row in clocks.log[: clocks.counts[module.LOGGED]].tolist()]
    assert released == [(1, 0, 0), (3, 2, 0), (3, 1, EARLY), (3, 0, COVERED)]
    assert clocks.counts[ERRORS] == clocks.counts[module.UNREADY] == clocks.counts[module.COUNTED] == 1


def doubted_by_the_engine(traffic: Traffic, entries: int, keys: int, messages: int, recent: int) -> int:
    """How many deliveries the engine doubts, each counted once."""
    size = traffic.nodes
    engine = probabilistic(entries, keys, recent, drawn(entries, keys, traffic.seed))
    taggers = [engine.tagger(me, size) for me in range(size)]
    orderers = [engine.orderer(me, size) for me in range(size)]
    sent: dict[int, Message] = {}
    found: set[tuple[int, int]] = set()
    for me, number, own in events(traffic, messages):
        if own:
            sent[number] = taggers[me].tag(b"")
            effects = orderers[me].sent(sent[number], 0)
        else:
            effects = orderers[me].receive(sent[number], sent[number].dot & ORIGIN_MASK, 0)
        for effect in effects:
            if isinstance(effect, Doubt):
                found.add((me, effect.dot))
            elif isinstance(effect, Message):
                taggers[me].took(effect)
    return len(found)


@pytest.mark.parametrize(("nodes", "entries", "keys"), [(8, 6, 2), (12, 20, 3), (5, 1, 1)])
def test_kernel_and_engine_doubt_the_same_deliveries(nodes: int, entries: int, keys: int) -> None:
    for seed, recent in ((1, 5), (2, 100)):
        traffic = Traffic(nodes=nodes, interval=60.0, skew=60.0, seed=seed)
        clocks = measure(traffic, entries, keys, 150, recent)
        assert clocks.counts[DOUBTS] == doubted_by_the_engine(traffic, entries, keys, 150, recent) > 0


def test_a_list_that_reaches_back_far_enough_leaves_no_error_undoubted() -> None:
    traffic = Traffic(nodes=12, interval=100.0, skew=60.0)
    long, short = measure(traffic, 10, 2, 500, 200), measure(traffic, 10, 2, 500, 2)
    assert long.counts[ERRORS] == short.counts[ERRORS] > 100
    assert long.undoubted == 0
    assert 0 < short.undoubted < short.counts[ERRORS]


def test_a_detection_point_that_doubts_too_little_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = prob.points(prob.DETECT, quick=True)[0]
    assert prob.run_clocks(point, tmp_path)["complete"]
    monkeypatch.setattr(prob, "RECENT", 2)
    forgetful = prob.points(prob.DETECT, quick=True)[0]
    result = prob.run_clocks(forgetful, tmp_path)
    assert "were not doubted" in result["why"]
    _, rows = prob.beside(prob.DETECT, [result])
    assert rows[0]["undoubted"] == str(result["undoubted"])
    assert prob.draw(prob.DETECT, [result]).title


def test_seeds_of_a_point_are_told_together() -> None:
    one = {
        "size": 5, "entries": 9, "keys": 2, "interval": 1.0, "share": 0.1, "least": 0.05, "most": 0.2,
        "deliveries": 100,
        "errors": 10, "doubts": 3, "undoubted": 0,
    }  # fmt: skip
    [both] = prob.pooled([one, {**one, "share": 0.3, "errors": 30}])
    assert (both["seeds"], both["errors"], both["deliveries"]) == (2, 40, 200)
    assert both["share"] == pytest.approx(0.2)
    assert both["error"] == pytest.approx(0.1)

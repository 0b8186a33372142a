"""The oracle and the model of correct runs check each other; broken runs reach every verdict."""

from collections import Counter
from random import Random

import pytest
from support.runs import random_run, sabotage

from thence.check import judge
from thence.trace.schema import CHANNEL_KINDS, COUNTING_KINDS, VERDICTS


@pytest.mark.parametrize("block", range(4))
def test_runs_of_a_correct_system_are_faultless(block: int) -> None:
    kinds: Counter[str] = Counter()
    plain = [kind for kind in COUNTING_KINDS if kind not in CHANNEL_KINDS]
    for seed in range(block * 1000, (block + 1) * 1000):
        events = random_run(Random(seed), "r")
        kinds.update({event.kind for event in events})
        returned = {event.node for event in events if (event.incarnation or 1) > 1}
        carried = [dot for event in events for dot in event.carries or [] if dot.seq]
        kinds.update([*["returned"] * bool(returned), *["carried"] * bool(carried)])
        assert [verdict.flagged for verdict in judge(events)] == [()], f"seed {seed}"
    assert all(kinds[kind] > 80 for kind in (*plain, "returned", "carried")), kinds


def test_sabotage_reaches_every_verdict_and_leaves_a_trace_that_can_be_judged() -> None:
    found: Counter[str] = Counter()
    for seed in range(2000):
        rng = Random(seed)
        for verdict in judge(sabotage(rng, random_run(rng, "r", "g"))):
            found.update(kind for kind, count in verdict.violations.items() if count)
    assert all(found[kind] > 100 for kind in VERDICTS), found


def test_a_seed_gives_the_same_run_again() -> None:
    once, again = Random(7), Random(7)
    assert sabotage(once, random_run(once, "r")) == sabotage(again, random_run(again, "r"))

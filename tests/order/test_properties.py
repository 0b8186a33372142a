"""Schedules that Hypothesis thinks up, for every engine, and engines against their literal twins."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.literal import literal_graph, literal_vector
from support.schedules import ACTS, Model

from thence.order.engine import Engine
from thence.order.engines import ENGINES

ORDERING = [kind for kind in ENGINES.values() if kind.name != "none"]
TWINS = [literal_vector(), literal_graph()]

PICKS = st.integers(0, 2**16)
SIZES = st.integers(1, 5)
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), PICKS), min_size=10, max_size=150)

QUIET = settings(derandomize=True, deadline=None, max_examples=300)


@pytest.mark.parametrize("kind", ORDERING + TWINS, ids=lambda kind: kind.name)
def test_any_schedule_is_delivered_in_causal_order(kind: Engine) -> None:
    @QUIET
    @given(size=SIZES, steps=STEPS)
    def holds(size: int, steps: list[tuple[str, int]]) -> None:
        model = Model(kind, size)
        for act, pick in steps:
            model.step(act, pick)
        model.finish()

    holds()


@pytest.mark.parametrize("kind", ORDERING, ids=lambda kind: kind.name)
def test_any_schedule_of_callbacks_is_delivered_in_causal_order(kind: Engine) -> None:
    @QUIET
    @given(
        size=SIZES, steps=st.lists(st.tuples(PICKS, st.booleans(), st.booleans()), min_size=5, max_size=100)
    )
    def holds(size: int, steps: list[tuple[int, bool, bool]]) -> None:
        model = Model(kind, size)
        for pick, speaks, replies in steps:
            if speaks:
                model.broadcast(pick % size)
            model.step("arrive", pick)
            for me in range(size):
                model.callbacks(me, partial(bool, replies))
        model.finish()

    holds()


def release_moments(kind: Engine, size: int, steps: list[tuple[str, int]]) -> tuple[Model, list[Any]]:
    """Clients take all there is or nothing: within one batch engines may differ in their order, and
    what a client has seen must not depend on that."""
    model = Model(kind, size)
    for act, pick in steps:
        if act == "take":
            for _ in range(len(model.nodes[pick % size].inbox)):
                model.take(pick % size)
        else:
            model.step(act, pick)
    model.finish()
    return model, model.moments


@QUIET
@given(size=SIZES, steps=STEPS)
def test_engines_release_the_same_messages_at_the_same_moments(
    size: int, steps: list[tuple[str, int]]
) -> None:
    _, expected = release_moments(literal_graph(), size, steps)
    for kind in (*(kind for kind in ORDERING if kind.prompt), literal_vector()):
        assert release_moments(kind, size, steps)[1] == expected, kind.name


@QUIET
@given(size=SIZES, steps=STEPS)
def test_fast_engines_write_the_stamps_of_their_twins(size: int, steps: list[tuple[str, int]]) -> None:
    for fast, twin in ((ENGINES["graph"], literal_graph()), (ENGINES["vector"], literal_vector())):
        ours, theirs = (release_moments(kind, size, steps)[0].messages for kind in (fast, twin))
        assert {name: (m.dot, m.context) for name, m in ours.items()} == {
            name: (m.dot, m.context) for name, m in theirs.items()
        }


class Clients(RuleBasedStateMachine):
    """Steps chosen one at a time, each from what is possible now; members come as well."""

    kind: Engine

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(self.kind, 2)

    def node(self, pick: int) -> int:
        return pick % len(self.model.nodes)

    @rule(pick=PICKS)
    def send(self, pick: int) -> None:
        self.model.submit(self.node(pick))

    @rule(pick=PICKS)
    def flush(self, pick: int) -> None:
        self.model.flush_all(self.node(pick))

    @precondition(lambda self: self.model.flights)
    @rule(pick=PICKS)
    def receive(self, pick: int) -> None:
        self.model.step("arrive", pick)

    @precondition(lambda self: self.model.flights)
    @rule(pick=PICKS)
    def receive_twice(self, pick: int) -> None:
        self.model.step("duplicate", pick)
        self.model.step("arrive", pick)

    @precondition(lambda self: self.model.flights)
    @rule(pick=PICKS)
    def lose(self, pick: int) -> None:
        self.model.step("lose", pick)

    @precondition(lambda self: self.model.lost)
    @rule()
    def send_again(self) -> None:
        self.model.repeat()

    @precondition(lambda self: any(node.inbox for node in self.model.nodes))
    @rule(pick=PICKS)
    def take(self, pick: int) -> None:
        full = [me for me, node in enumerate(self.model.nodes) if node.inbox]
        self.model.take(full[pick % len(full)])

    @precondition(lambda self: len(self.model.nodes) < 5)
    @rule()
    def admit(self) -> None:
        self.model.admit()

    @invariant()
    def waiting_never_outnumbers_what_came(self) -> None:
        for node in self.model.nodes:
            assert 0 <= node.orderer.waiting <= len(node.received)

    def teardown(self) -> None:
        self.model.finish()


@pytest.mark.parametrize("kind", ORDERING + TWINS, ids=lambda kind: kind.name)
def test_any_sequence_of_possible_steps_is_delivered_in_causal_order(kind: Engine) -> None:
    machine = type(f"Clients_{kind.name.replace('-', '_')}", (Clients,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=60),
    )

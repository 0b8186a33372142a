"""Every witness under its kit, and under schedules that Hypothesis thinks up."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.conformance_witness import WITNESS_CHECKS, with_small_window
from support.witnesses import Model

from thence.order.engine import Engine
from thence.order.engines import ENGINES

WITNESSED = [kind for kind in ENGINES.values() if kind.witness is not None]
SMALL = [with_small_window(ENGINES["graph"], wide) for wide in (3, 8)]
PICKS = st.integers(0, 2**16)


@pytest.mark.parametrize("check", WITNESS_CHECKS)
@pytest.mark.parametrize("kind", WITNESSED + SMALL, ids=lambda kind: kind.name)
def test_witness_conforms(kind: Engine, check: str) -> None:
    WITNESS_CHECKS[check](kind)


def test_every_engine_that_orders_has_a_witness() -> None:
    assert {kind.name for kind in WITNESSED} == set(ENGINES) - {"none"}


@pytest.mark.parametrize("kind", WITNESSED, ids=lambda kind: kind.name)
def test_a_witness_belongs_to_a_member_of_the_group(kind: Engine) -> None:
    assert kind.witness is not None
    with pytest.raises(ValueError, match="member 2 of 2"):
        kind.witness(2, 2)


class Witnesses(RuleBasedStateMachine):
    """Steps chosen one at a time, each from what is possible now."""

    kind: Engine
    model: Model

    @initialize(size=st.integers(1, 4))
    def group(self, size: int) -> None:
        self.model = Model(self.kind, size, Random(0))

    @rule(pick=PICKS)
    def send(self, pick: int) -> None:
        self.model.send(pick % len(self.model.clients))

    @rule(pick=PICKS)
    def tell(self, pick: int) -> None:
        self.model.tell(pick % len(self.model.clients))

    @precondition(lambda self: self.model.flights)
    @rule(pick=PICKS)
    def take(self, pick: int) -> None:
        places = self.model.deliverable()
        self.model.take(places[pick % len(places)])

    @precondition(lambda self: self.model.phantoms)
    @rule(pick=PICKS, again=st.booleans())
    def hear(self, pick: int, again: bool) -> None:
        self.model.hear(pick % len(self.model.phantoms), again)

    @precondition(lambda self: self.model.phantoms)
    @rule(pick=PICKS)
    def lose(self, pick: int) -> None:
        del self.model.phantoms[pick % len(self.model.phantoms)]

    @rule(pick=PICKS)
    def sweep(self, pick: int) -> None:
        me = pick % len(self.model.clients)
        self.model.sweep(me)
        self.model.compare(me, 5)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.model.finish()


@pytest.mark.parametrize("kind", WITNESSED + SMALL, ids=lambda kind: kind.name)
def test_any_sequence_of_possible_steps_is_witnessed_exactly(kind: Engine) -> None:
    machine = type(f"Witnesses_{kind.name.replace('-', '_')}", (Witnesses,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=50),
    )

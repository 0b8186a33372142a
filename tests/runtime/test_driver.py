"""The driver of a live node: what of it the kit for steps (`test_steps.py`) does not know."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from support.steps_changing import ChangingSubject
from support.steps_world import World

Subject = TypeVar("Subject", bound=World)


@contextmanager
def subject(node: Subject) -> Iterator[Subject]:
    """A node that ends in order."""
    try:
        yield node
        assert node.close() is True
        assert not node.unheard
    finally:
        node.end()


def test_samples_of_latency_are_of_what_is_new() -> None:
    """Repeats after a broken link are never delivered: kept, they would crowd out all others."""
    with subject(ChangingSubject()) as node:
        node.says("b", b"names go first")
        node.talk()
        node.events.clear()
        node.reads = False
        observed: list[int] = []
        node.driver.latency.observe = observed.append
        node.says("b", b"theirs")
        [*packets] = node.on_wire("b")
        node.driver.packets("b", packets, node.now)
        for _ in range(3):
            node.now += 10
            node.driver.packets("b", packets, node.now)
        assert observed == []
        node.take()
        assert (node.events, observed) == ([b"theirs"], [30])
        node.driver.packets("b", packets, node.now)
        node.reads = True
        node.says("b", b"theirs, too")
        node.arrives("b")
        assert (node.events, observed) == ([b"theirs", b"theirs, too"], [30, 0])


@pytest.mark.parametrize("sync", ["no", "everysec"])
def test_whatever_the_policy_no_joiner_is_let_in_before_that_is_synced(sync: str) -> None:
    """Or the process could forget whom it has let in."""
    with subject(ChangingSubject(sync=sync, at_once=False)) as node:  # type: ignore[arg-type]
        node.insist()
        later = node.ask(b"later")
        node.turn()
        assert not [one for one in node.journal if one.startswith(("send", "answer"))]
        while node.syncs:
            node.finish_sync()
        assert "send d -" in node.journal, "the state of the group"
        assert later.counters is not None

"""Property: the window against sets. Tags, stability, k-stability and draining in random schedules.

The model is a group of clients whose messages and phantoms arrive in any causally possible order.
Ground truth is kept as plain sets of messages; the window must agree with it after every step.
"""

from random import Random

import pytest

from thence.core.dots import ORIGIN_MASK, STEP
from thence.core.message import Message
from thence.order import window as window_module
from thence.order.window import GraphTag, Window


def see(window: Window, dot: int, *context: int) -> GraphTag:
    return window.see(Message(dot, context, b""))


class Client:
    """One client with its window, and the same knowledge as sets."""

    def __init__(self, me: int, size: int) -> None:
        self.me = me
        self.window = Window(me, size)
        self.dot = me
        self.context: set[int] = set()
        self.seen: list[int] = []
        self.tags: dict[int, GraphTag] = {}
        self.known: list[set[int]] = [set() for _ in range(size)]
        self.stable: list[int] = []
        self.phantoms: list[tuple[int, tuple[int, ...], set[int]]] = []


class Model:
    def __init__(self, seed: int, size: int) -> None:
        self.random = Random(seed)
        self.clients = [Client(me, size) for me in range(size)]
        self.past: dict[int, set[int]] = {}
        self.contexts: dict[int, tuple[int, ...]] = {}
        self.flying: list[tuple[int, int]] = []  # (receiver, dot)

    def send(self, client: Client) -> None:
        client.dot += STEP
        dot = client.dot
        self.past[dot] = set(client.seen)
        self.contexts[dot] = tuple(sorted(client.context))
        self.flying += [(other.me, dot) for other in self.clients if other is not client]
        self.see(client, dot)
        client.context = {dot}

    def see(self, client: Client, dot: int) -> None:
        client.tags[dot] = client.window.see(Message(dot, self.contexts[dot], b""))
        client.seen.append(dot)
        client.context = (client.context - set(self.contexts[dot])) | {dot}
        client.known[dot & ORIGIN_MASK] |= self.past[dot] | {dot}

    def deliverable(self) -> list[tuple[int, int]]:
        return [
            (receiver, dot)
            for receiver, dot in self.flying
            if self.past[dot] <= set(self.clients[receiver].seen)
        ]

    def deliver(self) -> None:
        options = self.deliverable()
        if options:
            choice = self.random.choice(options)
            self.flying.remove(choice)
            self.see(self.clients[choice[0]], choice[1])

    def phantom(self, client: Client, lost: float) -> None:
        for other in self.clients:
            if other is not client and self.random.random() >= lost:
                context = tuple(sorted(client.context))
                other.phantoms.append((client.me, context, set(client.seen)))
                other.window.heard(client.me, context)

    def expected_stable(self, client: Client) -> set[int]:
        """By definition: every other member is known to have seen it (5.1, with phantoms)."""
        seen = set(client.seen)
        known = [set(k) for k in client.known]
        for member, _, everything in client.phantoms:
            if everything <= seen:
                known[member] |= everything
        others = [known[q] for q in range(len(known)) if q != client.me]
        return set.intersection(seen, *others)

    def check(self, client: Client) -> None:
        stable = client.window.sweep()
        before = set(client.stable)
        for tag in stable:
            assert tag.dot not in before, "announced twice"
            assert self.past[tag.dot] <= before, "announced before its causes"
            before.add(tag.dot)
            client.stable.append(tag.dot)
        assert before == self.expected_stable(client)
        for a in self.random.sample(client.seen, min(6, len(client.seen))):
            for b in self.random.sample(client.seen, min(6, len(client.seen))):
                one, other = client.tags[a], client.tags[b]
                assert one.before(other) == (a in self.past[b])
                assert one.after(other) == (b in self.past[a])
                assert one.concurrent(other) == (a != b and a not in self.past[b] and b not in self.past[a])


@pytest.mark.parametrize("wide", [4096, 3, 8])
@pytest.mark.parametrize("seed", range(25))
def test_window_agrees_with_sets(seed: int, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "WIDE", wide)
    random = Random(f"{seed}/size")
    model = Model(seed, random.randint(1, 5))
    for _ in range(70):
        client = model.random.choice(model.clients)
        action = model.random.random()
        if action < 0.25:
            model.send(client)
        elif action < 0.85:
            model.deliver()
        else:
            model.phantom(client, lost=0.3)
        model.check(model.random.choice(model.clients))
    while model.flying:
        model.deliver()
    for client in model.clients:
        model.phantom(client, lost=0.0)
    for client in model.clients:
        model.check(client)
        assert set(client.stable) == set(model.past), "not everything became stable"
        assert client.window.drained
        assert len(client.window) == 0
        assert all(client.window.reached(dot) == len(model.clients) for dot in client.tags)


def test_reached_counts_members_and_silent_names_the_others() -> None:
    window = Window(0, 3)
    first = see(window, STEP)
    assert window.reached(first.dot) == 1
    assert window.silent() == [1, 2]
    see(window, STEP + 1, STEP)
    assert window.reached(first.dot) == 2
    assert window.silent() == [2]
    assert window.sweep() == []
    window.heard(2, (STEP,))
    assert window.reached(first.dot) == 3
    assert window.sweep() == [first]
    assert window.silent() == [2], "of member 1's message nothing was heard from member 2"


def test_a_phantom_that_overtakes_messages_is_remembered() -> None:
    """The document drops it, and stability waits for the next one, which may never come."""
    window = Window(0, 2)
    mine = see(window, STEP)
    window.heard(1, (STEP + 1,))
    assert window.sweep() == []
    assert not window.drained
    other = see(window, STEP + 1, STEP)
    assert window.sweep() == [mine, other]
    assert window.drained


def test_newer_phantoms_do_not_put_the_first_off() -> None:
    window = Window(0, 3)
    mine = see(window, STEP)
    window.heard(2, (STEP,))
    window.heard(1, (STEP + 2,))
    for seq in range(3, 50):
        window.heard(1, (STEP * seq + 2,))
    theirs = see(window, STEP + 2, STEP)
    assert window.sweep() == [mine, theirs]
    assert not window.drained, "the newest phantom is still ahead"


def test_memory_does_not_grow_with_history() -> None:
    window = Window(0, 2)
    context: tuple[int, ...] = ()
    for seq in range(1, 2000):
        for origin in (0, 1):
            dot = seq * STEP + origin
            see(window, dot, *context)
            context = (dot,)
        window.sweep()
        assert len(window) <= 2

"""What every ordering engine must pass, whatever its stamps look like.

Each check is a function of an `Engine` that raises AssertionError (or whatever the broken engine
raises). The model judges every step; the checks choose the schedules. To put a new engine under the
kit, add it to `thence.order.engines`: the tests go through that table.
"""

from collections.abc import Callable
from random import Random

from support.schedules import ACTS, Model
from thence.core.dots import origin_of, pack, seq_of
from thence.core.message import Message
from thence.order.engine import Engine

EngineCheck = Callable[[Engine], None]

SEEDS = range(12)
STEPS = 300

WEIGHTS = (4, 5, 7, 1, 2, 0.1, 6)
"""How often each of `ACTS` is drawn: packets in flight pile up, and overtake each other."""


def check_two_queues(engine: Engine) -> None:
    """Client and middleware run apart: both queues move at moments of their own."""
    for seed in SEEDS:
        rng = Random(seed)
        model = Model(engine, rng.randint(2, 5))
        for act in rng.choices(ACTS, WEIGHTS, k=STEPS):
            model.step(act, rng.getrandbits(30))
        model.finish()


def check_callbacks(engine: Engine) -> None:
    """The application runs inside delivery callbacks and answers from there."""
    for seed in SEEDS:
        rng = Random(seed)
        model = Model(engine, rng.randint(2, 5))

        def replies(rng: Random = rng) -> bool:
            return rng.random() < 0.3

        for _ in range(STEPS):
            me = rng.randrange(len(model.nodes))
            if rng.random() < 0.15:
                model.broadcast(me)
            else:
                model.step(
                    rng.choice(("arrive", "arrive", "arrive", "duplicate", "lose")), rng.getrandbits(30)
                )
                model.callbacks(me, replies)
        model.finish()


def check_late_client(engine: Engine) -> None:
    """A client that never looks into its inbox sends messages that follow nothing but each other."""
    model = Model(engine, 3)
    for _ in range(10):
        model.broadcast(0)
        while model.flights:
            model.arrive(0)
        model.broadcast(1)
    assert all(name.startswith(b"1/") for name in model.truth.past[b"1/10"])
    model.finish()


def check_reversed(engine: Engine) -> None:
    """Everything arrives in the opposite order: nothing can go until the last, which frees all."""
    model = Model(engine, 3)
    for round_ in range(12):
        name = model.broadcast(round_ % 2)
        model.deliver(name, 1 - round_ % 2)
    while model.flights:
        assert not model.nodes[2].inbox
        model.arrive(len(model.flights) - 1)
    assert len(model.nodes[2].inbox) == 12
    model.finish()


def check_long_chain(engine: Engine, length: int = 1500) -> None:
    """What a partition leaves behind: a chain longer than any stack, freed by its first message."""
    orderer, tagger = engine.orderer(2, 3), engine.tagger(0, 3)
    chain = [tagger.tag(b"%d" % number) for number in range(length)]
    for message in chain[1:]:
        assert not orderer.receive(message, 0, 0)
    assert orderer.waiting == length - 1
    assert orderer.receive(chain[0], 0, 0) == chain
    assert orderer.waiting == 0


def check_admission(engine: Engine) -> None:
    """Members come while messages are under way, and take part from then on."""
    for seed in SEEDS:
        rng = Random(seed)
        model = Model(engine, 2)
        for _ in range(3):
            for act in rng.choices(ACTS, WEIGHTS, k=STEPS // 4):
                model.step(act, rng.getrandbits(30))
            newcomer = model.admit()
            model.broadcast(newcomer)
        for act in rng.choices(ACTS, WEIGHTS, k=STEPS // 4):
            model.step(act, rng.getrandbits(30))
        model.finish()


def check_dots(engine: Engine) -> None:
    """A dot is the sender and its count of messages, from 1: others lean on that."""
    tagger = engine.tagger(1, 3)
    for number in range(1, 6):
        dot = tagger.tag(b"").dot
        assert (origin_of(dot), seq_of(dot)) == (1, number), f"dot: message {number} is named {dot:#x}"


def check_alone(engine: Engine) -> None:
    """A group of one, and a group in which only one ever speaks."""
    model = Model(engine, 1)
    for _ in range(3):
        model.broadcast(0)
    model.finish()
    model = Model(engine, 2)
    for _ in range(3):
        model.broadcast(0)
    model.finish()


def check_reduced(engine: Engine) -> None:
    """Contexts are the transitive reduction of the past: no dot follows from another, so that there
    is at most one for each origin. Not part of the kit: a vector is no such thing."""
    for seed in SEEDS:
        rng = Random(seed)
        model = Model(engine, 4)
        for act in rng.choices(ACTS, WEIGHTS, k=STEPS):
            model.step(act, rng.getrandbits(30))
        model.finish()
        for name, message in model.messages.items():
            dots = engine.predecessors(message)
            assert dots is not None
            assert len({origin_of(dot) for dot in dots}) == len(dots), f"reduced: {name!r} {dots}"
            told = {model.named[dot] for dot in dots}
            assert told == model.truth.reduced(model.truth.past[name]), f"reduced: {name!r} names {told}"


ENGINE_CHECKS: dict[str, EngineCheck] = {
    "dots": check_dots,
    "alone": check_alone,
    "two queues": check_two_queues,
    "callbacks": check_callbacks,
    "late client": check_late_client,
    "reversed": check_reversed,
    "long chain": check_long_chain,
    "admission": check_admission,
}


def check_lying_sender(engine: Engine) -> None:
    """A message that denies its sender's last one: a context still names one message of each member."""
    tagger = engine.tagger(0, 2)
    for seq in (1, 2):
        tagger.took(Message(pack(1, seq), (), b""))
    assert tagger.context() == (pack(1, 2),), "reduced: two messages of one member"


GRAPH_CHECKS: dict[str, EngineCheck] = ENGINE_CHECKS | {
    "reduced": check_reduced,
    "lying sender": check_lying_sender,
}

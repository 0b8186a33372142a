"""The checks that every witness must pass; the model that judges them is in `support.witnesses`.

Each check is a function of an `Engine` that has a witness.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from support.schedules import weight
from support.witnesses import ACTS, Model, refuses, step
from thence.order.engine import Engine, Witness
from thence.order.tags import SWEEP_MAX
from thence.order.vector_e2e import VECTOR_E2E
from thence.sim.attic import MemoryAttic

WitnessCheck = Callable[[Engine], None]

WEIGHTS = (4, 9, 2, 3, 0.5, 0.7, 3)
"""How often each of `ACTS` is drawn: messages pile up, phantoms overtake them."""


def with_small_window(engine: Engine, wide: int) -> Engine:
    """The same engine with a window that counts as wide from so many places on."""
    make = engine.witness
    assert isinstance(make, type)
    return replace(engine, name=f"{engine.name}-{wide}", witness=type("Small", (make,), {"wide": wide}))


def with_attic(engine: Engine, deep: int) -> Engine:
    """The same engine with a witness that keeps so few tags in memory."""
    make = engine.witness
    assert make is not None

    def stowing(me: int, size: int) -> Witness:
        witness = make(me, size)
        witness.stow_in(MemoryAttic(), deep)
        return witness

    return replace(engine, witness=stowing)


def models(engine: Engine, seeds: range, least: int = 1) -> Iterator[Model]:
    for seed in seeds:
        rng = Random(seed)
        yield Model(engine, rng.randint(least, 5), rng)


def shake(model: Model, times: int) -> None:
    """Much is sent before anything is taken, as after a partition, and then much is taken."""
    for busy in (WEIGHTS, (9, 3, 1, 2, 0, 0, 1), (0.5, 9, 2, 3, 0.5, 0.2, 3)) * times:
        for act in model.rng.choices(ACTS, busy, k=40):
            step(model, act, model.rng.getrandbits(30))
    model.finish()


def check_schedules(engine: Engine) -> None:
    """Anything that can happen, in any order; sweeps now and then."""
    for model in models(engine, range(40)):
        for act in model.rng.choices(ACTS, WEIGHTS, k=200):
            step(model, act, model.rng.getrandbits(30))
        model.finish()


def check_every_step(engine: Engine) -> None:
    """A sweep after every step: whatever is stable is found at once."""
    for model in models(engine, range(100, 106), least=2):
        for act in model.rng.choices(ACTS, WEIGHTS, k=80):
            step(model, act, model.rng.getrandbits(30))
            for me in range(len(model.clients)):
                model.sweep(me)
        model.finish()


def check_small_windows(engine: Engine) -> None:
    """Windows that become wide and narrow again all the time; for witnesses that know the difference."""
    if not hasattr(engine.witness, "wide"):
        return
    for wide in (1, 4, 9):
        for model in models(with_small_window(engine, wide), range(12), least=2):
            shake(model, 3)


def check_narrow_again(engine: Engine) -> None:
    """A window that was wide and is not any more still knows what it knew of the messages left in it."""
    if hasattr(engine.witness, "wide"):
        engine = with_small_window(engine, 8)
    model = Model(engine, 3, Random(0))
    both = [model.send(me) for _ in range(20) for me in (0, 1)]
    for place, message in enumerate(both):
        for me in (1 - place % 2, 2):
            model.bring(message, me)
    for me in (1, 2):
        model.tell(me)
    last = [model.send(0) for _ in range(3)]
    for message in last:
        model.bring(message, 1)
    model.tell(1)
    model.hear_all()
    assert len(model.sweep(0)) == len(both)
    for message in last:
        model.bring(message, 2)
    model.tell(2)
    model.hear_all()
    assert len(model.sweep(0)) == len(last), "held: of member 1 everything was known"
    model.finish()


def check_alone(engine: Engine) -> None:
    """A group of one: what is sent is stable."""
    model = Model(engine, 1, Random(0))
    for _ in range(3):
        message = model.send(0)
        assert model.sweep(0) == [message.dot]
    model.finish()


def check_passive(engine: Engine) -> None:
    """Who only listens holds stability back until it tells; then nothing is held."""
    model = Model(engine, 3, Random(0))
    for number in range(20):
        message = model.send(number % 2)
        for me in (1 - number % 2, 2):
            model.bring(message, me)
        assert model.sweep(0) == model.sweep(1) == []
        assert model.clients[0].witness.silent() == ([2] if number else [1, 2])
    model.tell(2)
    model.hear_all()
    assert len(model.sweep(0)) == 20, "held: both others are known to have seen everything"
    model.finish()


def check_overtaking(engine: Engine) -> None:
    """A phantom that comes before its sender's last message is not forgotten: no other may follow."""
    model = Model(engine, 2, Random(0))
    first, second = model.send(0), model.send(1)
    model.bring(first, 1)
    model.tell(1)
    model.hear_all()
    assert model.sweep(0) == []
    assert not model.clients[0].witness.drained, "rest: drained with a phantom to be counted"
    model.bring(second, 0)
    assert set(model.sweep(0)) == {first.dot, second.dot}, "held: the phantom that overtook is forgotten"
    model.finish()


def check_before_its_causes(engine: Engine) -> None:
    """A phantom names a message of a third member that has not come yet."""
    model = Model(engine, 3, Random(0))
    first, other = model.send(0), model.send(2)
    for message in (first, other):
        model.bring(message, 1)
    model.bring(first, 2)
    for me in (1, 2):
        model.tell(me)
    model.hear_all()
    model.sweep(0)
    model.bring(other, 0)
    assert other.dot in model.clients[0].stable + model.sweep(0), "held: what the phantom named is forgotten"
    model.finish()


def check_first_and_newest(engine: Engine) -> None:
    """Ever newer phantoms must not put the first one off, the newest must not be lost, and all those in
    between must not be kept."""
    model = Model(engine, 3, Random(0))
    mine, theirs = model.send(0), [model.send(1)]
    model.bring(mine, 1)
    model.bring(mine, 2)
    sizes = []
    for _ in range(20):
        model.tell(1)
        model.hear_all()
        sizes.append(weight(model.clients[0].witness))
        theirs.append(model.send(1))
    late = model.send(0)
    for me in (1, 2):
        model.bring(late, me)
        model.tell(me)
    model.hear_all()
    assert len(set(sizes[2:])) == 1, f"rest: phantoms pile up, {sizes[2]} to {sizes[-1]}"
    model.bring(theirs[0], 0)
    model.bring(theirs[0], 2)
    assert mine.dot in model.sweep(0), "held: the first phantom was put off"
    for message in theirs[1:]:
        model.bring(message, 0)
    assert late.dot in model.sweep(0), "held: the newest phantom was lost"
    model.finish()


def check_displaced(engine: Engine) -> None:
    """Between two sweeps: phantoms that waited count by now when a newer one comes that must wait."""
    model = Model(engine, 2, Random(0))
    mine, theirs = model.send(0), [model.send(1)]
    model.tell(1)
    theirs.append(model.send(1))
    model.bring(mine, 1)
    model.tell(1)
    model.hear_all()
    for message in theirs:
        model.bring(message, 0)
    model.send(1)
    model.tell(1)
    model.hear_all()
    assert mine.dot in model.sweep(0), "held: a phantom that counted was displaced"
    model.finish()


def check_long_chain(engine: Engine, length: int = 1500) -> None:
    """What a partition leaves behind becomes stable in one go, however deep it is."""
    assert engine.witness is not None
    taggers = [engine.tagger(me, 3) for me in range(3)]
    witness = engine.witness(2, 3)
    dots = []
    for number in range(length):
        message = taggers[number % 2].tag(b"")
        taggers[1 - number % 2].took(message)
        witness.see(message)
        dots.append(message.dot)
        if number < length - 2:
            assert [tag.dot for tag in witness.sweep()] == dots[-2:-1], "held: it was followed by both"
    assert len(witness.sweep()) == 2
    witness = engine.witness(0, 3)
    taggers = [engine.tagger(me, 3) for me in range(3)]
    for number in range(length):
        message = taggers[number % 2].tag(b"")
        taggers[1 - number % 2].took(message)
        taggers[2].took(message)
        witness.see(message)
    assert witness.sweep() == [], "early: nothing was heard of member 2"
    witness.heard(2, taggers[2].context())
    assert len(witness.sweep()) in (length - 1, length)


def check_memory(engine: Engine) -> None:
    """A busy group keeps what is not stable, and nothing of what was."""
    model = Model(engine, 2, Random(0))
    sizes = []
    for _ in range(60):
        for me in (0, 1):
            model.bring(model.send(me), 1 - me)
            model.sweep(0)
        sizes.append(weight(model.clients[0].witness))
    assert len(set(sizes[5:])) == 1, f"rest: memory grows with history: {sizes[5]} to {sizes[-1]}"
    fresh = Model(engine, 2, Random(0)).clients[0].witness
    model.tell(1)
    model.hear_all()
    model.sweep(0)
    assert weight(model.clients[0].witness) == weight(fresh), "rest: something is kept for nothing"


def check_attic(engine: Engine) -> None:
    """Anything that can happen, with nearly all tags in the attic."""
    for deep in (1, 3, 8):
        for model in models(with_attic(engine, deep), range(14), least=2):
            shake(model, 2)


def check_wide_attic(engine: Engine) -> None:
    """The same, with windows that become wide and narrow again."""
    if not hasattr(engine.witness, "wide"):
        return
    for deep, wide in ((1, 1), (2, 4), (5, 9)):
        for model in models(with_attic(with_small_window(engine, wide), deep), range(14), least=2):
            shake(model, 2)


def check_away(engine: Engine) -> None:
    """A member is away: memory does not grow with what is said meanwhile, and then all of it is stable, a
    bounded number at a time, causes first."""
    taggers = [engine.tagger(me, 3) for me in range(3)]
    assert engine.witness is not None
    witness, attic = engine.witness(0, 3), MemoryAttic()
    witness.stow_in(attic, 16)
    seen, sizes = [], []
    for number in range(3 * SWEEP_MAX):
        message = taggers[number % 2].tag(b"")
        taggers[1 - number % 2].took(message)
        taggers[2].took(message)
        seen.append(witness.see(message).dot)
        if number % SWEEP_MAX == SWEEP_MAX - 1:
            assert witness.sweep() == [], "early: nothing was heard of member 2"
            sizes.append(weight(witness) - weight(attic))
    assert max(sizes) < 1.2 * min(sizes), f"rest: memory grows with what is not stable: {sizes}"
    old, young = witness.tag_of(seen[5]), witness.tag_of(seen[-1])
    assert old, "tag: it is lost"
    assert young, "tag: it is lost"
    assert old.before(young), "tag: it does not compare any more"
    assert witness.silent() == [2], "silent: it is the one"
    witness.heard(2, taggers[2].context())
    stable: list[int] = []
    while found := witness.sweep():
        assert len(found) <= SWEEP_MAX, f"rest: {len(found)} come at once"
        stable += [tag.dot for tag in found]
    assert stable == seen[: len(stable)], "order: not as they were seen"
    assert len(stable) >= len(seen) - 1, f"held: {len(seen) - len(stable)} are not stable"
    assert len(attic.held) <= 1, "rest: the attic is not empty"


def check_wide_memory(engine: Engine) -> None:
    """Two sides of a partition, and a member that says nothing: bits would grow with the square of what
    is concurrent. Beyond a bound tags are vectors; for witnesses that know the difference."""
    if not hasattr(engine.witness, "wide"):
        return
    engine, wide = with_small_window(engine, 8), 8
    assert engine.witness is not None
    mine, theirs = engine.tagger(0, 3), engine.tagger(1, 3)
    window: Any = engine.witness(0, 3)
    for number in range(400):
        window.see((mine if number < 200 else theirs).tag(b""))
    young = window._tags.young
    bits = sum(tag._bits.bit_length() for tag in young)
    assert bits <= (wide + 1) * len(young), f"rest: {bits} bits for {len(window)} messages"


WITNESS_CHECKS: dict[str, WitnessCheck] = {
    "alone": check_alone,
    "schedules": check_schedules,
    "every step": check_every_step,
    "small windows": check_small_windows,
    "narrow again": check_narrow_again,
    "attic": check_attic,
    "wide attic": check_wide_attic,
    "away": check_away,
    "passive": check_passive,
    "overtaking": check_overtaking,
    "before its causes": check_before_its_causes,
    "first and newest": check_first_and_newest,
    "displaced": check_displaced,
    "long chain": check_long_chain,
    "memory": check_memory,
    "wide memory": check_wide_memory,
    "garbage": refuses,
}


def check_two_vectors(engine: Engine) -> None:
    """The same witness where messages are tagged twice: the middleware's vector is none of its business."""
    check_schedules(replace(VECTOR_E2E, witness=engine.witness))


MATRIX_CHECKS = WITNESS_CHECKS | {"two vectors": check_two_vectors}
"""For the witness of vectors, whichever engine stamps them."""

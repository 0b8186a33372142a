"""Events once more, for a program of a changing group that names the position up to which it knows them.

A position belongs to one incarnation: first come the operations that the program had missed when that began,
then messages as it delivered them. Positions of later incarnations are higher. One of an earlier incarnation
says exactly where to go on if the program knew everything that its node had delivered as that; else what it
lacks of it was in a log that is gone, and is named in a `Gap`, as is what the log does not hold any more.

Nothing is kept in memory but where the readers stand: a log may hold gigabytes.
"""

from collections.abc import Iterator
from typing import Final

from thence.core.dots import ORIGIN_MASK, seq_of
from thence.core.groups import CARRY, OPERATION, Lost, Place, number_of, plain, told_apart
from thence.members.extents import Progress
from thence.members.operations import Operation
from thence.oplog.log import OpLog
from thence.oplog.record import Stored
from thence.replica.events import Delivered, Repeated, Stable, gap
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.ledger.ledger import CODEC, Ledger
from thence.replica.group.member.member import Member
from thence.replica.group.transfer.carrying import operations_in
from thence.replica.group.transfer.reading import everything_of, unknown
from thence.replica.history import understood
from thence.replica.life_tag import LifeTag
from thence.replica.positions import PART_BITS, place_of

TURN: Final = 256
"""Messages that are read from the log before others have their turn; a large one counts for several."""


def since(member: Member, log: OpLog, after: int, own: bool) -> Iterator[Repeated | None]:
    """What comes after a position, up to what was taken when the first is asked for. What is stable by then
    is told as that, too. `own`: with what this incarnation has sent itself. The log is read as
    events are asked for, and is not collected before all of them were; None: others should have their
    turn."""
    member.reading.replays += 1
    try:
        yield from _since(member, log, after, own)
    finally:
        member.reading.replays -= 1


def _since(member: Member, log: OpLog, after: int, own: bool) -> Iterator[Repeated | None]:
    life, reading = number_of(member.me), member.reading
    start, begun = place_of(life, 0), place_of(life, reading.begun)
    if after >= begun:
        yield from _logged(member, log, after, own)
        return
    if not reading.whole:  # what was missed then is gone, and is named with what the log lacks
        yield from _logged(member, log, begun, own, unknown(member.ledger, Progress(None)))
        return
    rest = _logged(member, log, begun, own)
    lost = list(reading.lost) if after < start else []
    if after < place_of(*reading.former) and reading.before is not None:
        had, past, _ = reading.before
        lost += [Lost(name, 1, count) for name, count in had.items() if not told_apart(name)[1]]
        lost += everything_of(past)
    if lost:
        yield gap(lost, reading.holders or member.view.side, start)
    for read in range(max(0, after - start), len(reading.missed)):
        yield _missed(member, reading.missed[read], read + 1)
    yield from rest


def _logged(
    member: Member, log: OpLog, after: int, own: bool, lost: list[Lost] | None = None
) -> Iterator[Repeated | None]:
    """What the log holds after a position of this incarnation. `lost`: what is lacking besides what the log
    shows to be."""
    life, now, exact = number_of(member.me), member.ledger.delivered, lost is None
    ordinal, part = after - place_of(life, 0) >> PART_BITS, after & (1 << PART_BITS) - 1
    if part:
        ordinal -= 1  # the rest of it is to come
    if exact and ordinal >= now:
        return
    readers = [_in_turns(log.since(log.head)) for _ in range(3)]  # all up to the same place
    last, count = dict(enumerate(member.ledger.counts)), 0
    for stored in readers[0]:
        count += stored is not None
        if stored is None:
            yield None
    before = now - count
    skipped = max(0, ordinal - before)
    if not exact or ordinal < before:
        ordinal = max(ordinal, before)
        yield from _earlier(_without(readers[1], skipped), last)
        names = member.ledger.names
        others = [(names[at], seq) for at, seq in last.items() if seq and (own or names[at] != member.me)]
        lost = [*(lost or ()), *[Lost(name, 1, seq) for name, seq in others]]
        yield gap(lost, member.view.side, place_of(life, ordinal))
    yield from _as_events(member, readers[2], before + 1, after, own)


def _in_turns(stored: Iterator[Stored]) -> Iterator[Stored | None]:
    """None between them, when so much was read that others should have their turn."""
    allowance = Allowance(TURN)
    for one in stored:
        yield one
        allowance.spend(one.data)
        if allowance.left <= 0:
            yield None
            allowance.left = TURN


def _without(stored: Iterator[Stored | None], first: int) -> Iterator[Stored | None]:
    """All but the first."""
    for one in stored:
        if one is None or first <= 0:
            yield one
        else:
            first -= 1


def _earlier(stored: Iterator[Stored | None], last: dict[int, int]) -> Iterator[None]:
    """Everything before these messages: how much of it the program knows is not known here."""
    seen: set[int] = set()
    for one in stored:
        if one is None:
            yield None
        elif (origin := one.dot & ORIGIN_MASK) not in seen:
            seen.add(origin)
            last[origin] = seq_of(understood(CODEC, one).before)


def _as_events(
    member: Member, stored: Iterator[Stored | None], first: int, after: int, own: bool
) -> Iterator[Repeated | None]:
    """`first`: the ordinal of the first of them. What comes up to the position is read as well: an operation
    that was carried there takes no effect when it is carried once more."""
    life, again, ledger, ordinal = number_of(member.me), set[Place](), member.ledger, first - 1
    for one in stored:
        if one is None:
            yield None
            continue
        ordinal += 1
        message = understood(CODEC, one)
        named, inner = ledger.place(message.dot), ledger.window.tag_of(message.dot)
        position, kind = place_of(life, ordinal), plain(message.payload)[0]
        carried = kind == CARRY
        if named[0] == member.me and not own:
            continue
        for part, operation in enumerate(operations_in(named, message.payload), 1):
            place = (operation.origin, operation.seq)
            at = position if kind == OPERATION else position | min(part, (1 << PART_BITS) - 1)
            took_effect = not (carried and (place in again or _came_as_itself(ledger, place)))
            if carried:
                again.add(place)
            if took_effect and at > after and not member.reading.had(place, ledger.timelines.exactly):
                tag = LifeTag(inner, member.me, operation.dot, member.book)
                context = operation.context if carried else ()
                yield Delivered(tag, operation.payload, *operation.dot, at, carried, context=context)
                if inner is None:
                    yield Stable(tag, *tag.dot)


def _came_as_itself(ledger: Ledger, place: Place) -> bool:
    """Was the message delivered here that an operation was first sent in? What is past is counted whole,
    and a timeline with what was carried of it; here neither is meant."""
    member, start = told_apart(place[0])
    index = ledger.index(member)
    if index < 0 or place[1] > ledger.counts[index]:
        return False
    return not start or ledger.timelines.exactly((member, place[1]))[0] == place[0]


def _missed(member: Member, operation: Operation, count: int) -> Delivered:
    """What the program had missed when the incarnation began, the `count`th of it."""
    tag, position = member.delivery.missed(operation, count)
    return Delivered(tag, operation.payload, *operation.dot, position)

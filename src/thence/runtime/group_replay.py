"""Events once more, for a program of a changing group that names the position up to which it knows them.

A position belongs to one incarnation: first come the operations that the program had missed when that began,
then messages as it delivered them. Positions of later incarnations are higher. One of an earlier incarnation
says exactly where to go on if the program knew everything that its node had delivered as that; else what it
lacks of it was in a log that is gone, and is named in a `Gap`, as is what the log does not hold any more.
"""

from collections.abc import Iterator

from thence.core.dots import ORIGIN_MASK, seq_of
from thence.core.groups import OPERATION, Lost, Place, number_of, plain
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.replica.group_ledger import CODEC
from thence.replica.group_member import Member
from thence.replica.group_retained import operations_in
from thence.replica.history import understood
from thence.runtime.application import Delivered
from thence.runtime.group_program import PART_BITS, GroupEvent, LifeTag, gap, missed_event, place_of


def since(member: Member, log: OpLog, after: int) -> list[GroupEvent]:
    """What comes after a position, up to what was taken by now."""
    life, reading = number_of(member.me), member.reading
    start, begun = place_of(life, 0), place_of(life, reading.begun)
    if after >= begun:
        return _logged(member, log, after, exact=True)
    rest = _logged(member, log, begun, exact=reading.whole)
    if not reading.whole:  # what was missed then is gone, and is named with what the log lacks
        return rest
    lost = list(reading.lost) if after < start else []
    if after < place_of(*reading.former):
        had = reading.before.counts if reading.before is not None else {}
        lost += [Lost(name, 1, count) for name, count in had.items()]
    told: list[GroupEvent] = [gap(lost, reading.holders or member.view.side, start)] if lost else []
    read = max(0, after - start)
    missed = enumerate(reading.missed[read:], read + 1)
    return [*told, *[missed_event(member, operation, count) for count, operation in missed], *rest]


def _logged(member: Member, log: OpLog, after: int, exact: bool) -> list[GroupEvent]:
    """What the log holds after a position of this incarnation. `exact`: nothing else is lacking."""
    life, now = number_of(member.me), sum(member.ledger.counts)
    ordinal, part = after - place_of(life, 0) >> PART_BITS, after & (1 << PART_BITS) - 1
    if exact and ordinal >= now:
        return []
    if part:
        ordinal -= 1  # the rest of it is to come
    messages = [understood(CODEC, stored) for stored in log.since(log.head)]
    before = now - len(messages)
    told: list[GroupEvent] = []
    messages = messages[max(0, ordinal - before) :]
    if not exact or ordinal < before:
        ordinal = max(ordinal, before)
        told = [gap(_earlier(member, messages), member.view.side, place_of(life, ordinal))]
    return told + list(_as_events(member, messages, ordinal + 1, after))


def _earlier(member: Member, messages: list[Message]) -> list[Lost]:
    """Everything before these messages: how much of it the program knows is not known here."""
    last = dict(enumerate(member.ledger.counts))
    for message in reversed(messages):
        last[message.dot & ORIGIN_MASK] = seq_of(message.dot) - 1
    names = member.ledger.names
    return [Lost(names[at], 1, count) for at, count in last.items() if count and names[at] != member.me]


def _as_events(member: Member, messages: list[Message], first: int, after: int) -> Iterator[GroupEvent]:
    life, again, ledger = number_of(member.me), set[Place](), member.ledger
    for ordinal, message in enumerate(messages, first):
        named, inner = ledger.place(message.dot), ledger.window.tag_of(message.dot)
        tag = None if inner is None else LifeTag(inner, member.me, named)
        position, carried = place_of(life, ordinal), plain(message.payload)[0] != OPERATION
        if named[0] == member.me:
            continue
        for part, operation in enumerate(operations_in(named, message.payload), 1):
            place = (operation.origin, operation.seq)
            at = position | min(part, (1 << PART_BITS) - 1) if carried else position
            took_effect = not carried or (
                operation.seq > ledger.count(operation.origin) and place not in again
            )
            again.add(place)
            if took_effect and at > after and not member.reading.had(place, ledger.timelines.exactly):
                yield Delivered(tag, operation.payload, *operation.dot, at)

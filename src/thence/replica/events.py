"""What a program is told of its group: values, made by the ten thousand, so in C."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from thence.core.groups import ALL, Lost, Place
from thence.replica.life_tag import LifeTag


class Delivered(Struct, frozen=True):
    """An operation, for the first time; or again, where `events(after=…)` asked for it, or a state is brought
    up to date."""

    tag: LifeTag | None
    """None where the order has no tags."""
    payload: bytes
    origin: str
    seq: int
    position: int
    """To be kept with the program's state: `events(after=position)` goes on from here."""
    carried: bool = False
    """The group went on without its sender, which has sent it again: `tag` is that of the message in which it
    came, so it follows from more than its sender had seen."""
    group: str = ""
    """On an edge tree: the group that it was sent to."""
    context: tuple[Place, ...] = ()
    """Of a carried one: what it directly followed from when it was first sent, by name and counter. Nothing
    where that is not known (it was carried by a version that did not tell), or was the first of all."""


class Stable(Struct, frozen=True):
    """Every member has delivered this operation, and all before it of the same origin; whatever is delivered
    here from now on follows from it. Told at least once of what comes after the state or the position that a
    program goes on from."""

    tag: LifeTag
    origin: str
    seq: int


class ViewChanged(Struct, frozen=True):
    """The members from now on, as incarnations; `me` is this node's own."""

    members: tuple[str, ...]
    me: str


class Orphaned(Struct, frozen=True):
    """The group went on without this node and never had this operation. It is sent again, as part of another
    message, unless `thence.open` was told otherwise (`send_again`)."""

    tag: LifeTag | None
    """The one that it had at this node; None if it was stable there, on the side that was given up."""
    payload: bytes
    origin: str
    seq: int
    again: bool = True
    """It is sent again. If not, that was declined, or something that it follows from was."""


class Gap(Struct, frozen=True):
    """Messages that this program has missed, and that it will not get: the log of the member that let its
    node in again does not reach back so far. Nothing that follows from them came before this."""

    first: Mapping[str, int]
    """By incarnation, the first of its messages that may have been missed."""
    last: Mapping[str, int]
    """And the last. An incarnation that is not in here is unknown by now: it stands for all of its messages,
    and for earlier incarnations of its process."""
    members: tuple[str, ...]
    """The members of the group that had them."""
    position: int
    """As of `Delivered`."""


class Doubted(Struct, frozen=True):
    """Order `probabilistic`: this operation was perhaps delivered before one that it follows from. Told just
    before that one (`late`) is, so after the error. Most doubts are false alarms; no error goes without one,
    as long as it is among the last `recent` deliveries. By then the node asks its neighbours for whatever
    else it may lack; a program that is a state is set right by itself."""

    tag: LifeTag
    origin: str
    seq: int
    late: LifeTag


Event = Delivered | Stable | ViewChanged | Orphaned | Gap | Doubted

Repeated = Delivered | Stable | Gap
"""What a program is told again."""


def gap(lost: Iterable[Lost], members: Iterable[str], position: int) -> Gap:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for one in lost:
        first[one.origin] = min(one.first, first.get(one.origin, one.first))
        last[one.origin] = max(one.last, last.get(one.origin, 0))
    known = {origin: seq for origin, seq in last.items() if seq < ALL}
    return Gap(MappingProxyType(first), MappingProxyType(known), tuple(sorted(members)), position)

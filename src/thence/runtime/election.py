"""Which node founds a group: decided from the answers of all, without a socket.

A node without data asks the addresses that it was given, and those that the answers name, and so on. Nodes
that wait say who they are and which addresses they name. Let S be all that were reached. If all of S
answered, wait, and each of them leads back to the one that asks, then each node in S reaches exactly S, so
all come to the same S and the same founder: the smallest address. A node that no other names is in no such S
and founds nothing.

After a power cut all members of a group may find that their logs may lack their ends. None of them may go on
as it was, so all of them ask, and the one that keeps most of the group's history founds it anew.

The founder alone decides, and founds a group of one; the others ask until it answers as a member, and join.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from thence.core.errors import PeerError, UsageError
from thence.core.varint import Reader, put
from thence.runtime.address import Address, checked, parse_address

Members = tuple[tuple[str, Address], ...]

_WAITING, _FOUNDED, _OPEN, _KEEPING = 0, 1, 2, 3
MOST_NAME_BYTES: Final = 255
MOST_ADDRESSES: Final = 1000
"""That one survey asks: answers cannot lead it on for ever."""


@dataclass(frozen=True, slots=True)
class Founded:
    """The answer of a member of a closed group, to one that is not in it."""

    members: Members


@dataclass(frozen=True, slots=True)
class Seeking:
    """The answer of a node that looks for a group itself."""

    name: str
    address: Address
    names: tuple[Address, ...]
    keeps: int = 0
    """It was a member, and may have forgotten the end of what it knew: how many messages it still has."""


@dataclass(frozen=True, slots=True)
class Open:
    """The answer of a member of a changing group, which lets others in."""

    members: Members
    """Those that were not known to be gone, by the names of their processes."""
    highest: int
    """The highest number of an incarnation of the asking process that is known there; 0: none."""


Answer = Founded | Seeking | Open


def put_answer(answer: Answer) -> bytes:
    out = bytearray()
    if isinstance(answer, Founded | Open):
        out.append(_FOUNDED if isinstance(answer, Founded) else _OPEN)
        put(out, len(answer.members))
        for name, address in answer.members:
            _put_text(out, name)
            _put_text(out, str(address))
        if isinstance(answer, Open):
            put(out, answer.highest)
    else:
        out.append(_KEEPING if answer.keeps else _WAITING)
        if answer.keeps:
            put(out, answer.keeps)
        _put_text(out, answer.name)
        _put_text(out, str(answer.address))
        put(out, len(answer.names))
        for address in answer.names:
            _put_text(out, str(address))
    return bytes(out)


def take_answer(data: bytes) -> Answer:
    """A checked answer, or `PeerError`."""
    reader = Reader(data, 0, len(data))
    kind = reader.take()
    answer: Answer
    if kind in (_FOUNDED, _OPEN):
        members = tuple([(_take_name(reader), _take_address(reader)) for _ in range(_take_count(reader))])
        if list(members) != sorted(dict(members).items()):
            raise PeerError("a group that names its members in disorder")
        answer = Founded(members) if kind == _FOUNDED else Open(members, reader.take())
    elif kind in (_WAITING, _KEEPING):
        keeps = reader.take() if kind == _KEEPING else 0
        name, address = _take_name(reader), _take_address(reader)
        names = tuple([_take_address(reader) for _ in range(_take_count(reader))])
        answer = Seeking(name, address, names, keeps)
    else:
        raise PeerError(f"an answer of kind {kind}")
    if reader.at != reader.end:
        raise PeerError(f"{reader.end - reader.at} bytes too many in an answer")
    return answer


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()
    put(out, len(data))
    out += data


def _take_count(reader: Reader) -> int:
    count = reader.take()
    if count > reader.end - reader.at:
        raise PeerError(f"a list of {count} in {reader.end - reader.at} bytes")
    return count


def _take_name(reader: Reader) -> str:
    data = reader.take_bytes(reader.take())
    try:
        name = data.decode()
    except UnicodeDecodeError:
        raise PeerError("a name that is no text") from None
    if not 0 < len(data) <= MOST_NAME_BYTES or not name.isprintable():
        raise PeerError("a name that no correct peer has")
    return name


def _take_address(reader: Reader) -> Address:
    data = reader.take_bytes(reader.take())
    try:
        return parse_address(data.decode())
    except (UnicodeDecodeError, UsageError) as error:
        raise PeerError(f"an address that is none: {error}") from None


class FounderElection:
    """One round of asking. `to_ask` until it is empty, telling what came of each; then `verdict`."""

    __slots__ = (
        "_answers", "_asked", "_hasty", "_me", "_mine", "_missed", "_names", "_own_names", "_queue",
    )  # fmt: skip

    def __init__(
        self, name: str, address: Address, join: Sequence[Address], keeps: int = 0, hasty: bool = False
    ) -> None:
        """`keeps`: see `Seeking`. `hasty`: nodes that do not answer are not waited for. Only a node that
        keeps something may be: should there be two groups then, they have a history in common, and find
        together again."""
        self._me: Final = name
        self._hasty: Final = hasty and keeps > 0
        self._mine: Final = checked(*address)
        self._own_names: Final = tuple(join)
        self._asked: dict[Address, Address] = {self._mine: self._mine}
        """Address as it was named -> address as the node that answers there names itself."""
        self._answers: dict[Address, Answer] = {}
        self._missed: dict[Address, str] = {}
        self._queue: list[Address] = []
        self._names: set[Address] = {self._mine}
        self._answers[self._mine] = Seeking(name, self._mine, self._own_names, keeps)
        self._add(self._own_names)

    def _add(self, names: Sequence[Address]) -> None:
        for address in names:
            if address not in self._names and len(self._names) < MOST_ADDRESSES:
                self._names.add(address)
                self._queue.append(address)

    def to_ask(self) -> list[Address]:
        queue, self._queue = self._queue, []
        return queue

    def is_me(self, address: Address) -> None:
        """This address leads back to the one that asks."""
        self._asked[address] = self._mine

    def missed(self, address: Address, why: str) -> None:
        self._missed[address] = why

    def heard(self, address: Address, answer: Answer) -> None:
        if not isinstance(answer, Seeking):
            self._asked[address] = address
            self._answers[address] = answer
            return
        before = self._answers.get(answer.address)
        if isinstance(before, Seeking) and before.name != answer.name:
            self.missed(
                address, f"{answer.name} and {before.name} both say that they are at {answer.address}"
            )
            return
        self._asked[address] = answer.address
        self._answers[answer.address] = answer
        self._add((answer.address, *answer.names))

    def verdict(self) -> Open | None:
        """The contacts that this node may join through, by name; itself alone, if it is to found the group;
        None: ask again. `UsageError`: there is no point in asking again."""
        for answer in self._answers.values():
            if isinstance(answer, Founded):
                names = ", ".join([f"{name} at {address}" for name, address in answer.members])
                raise UsageError(f"the group is closed, no other node can join it: it is {names}")
        opened = [answer for answer in self._answers.values() if isinstance(answer, Open)]
        if opened:
            return self._join(opened)
        return None if self.obstacles() else Open(((self._me, self._mine),), 0)

    def _join(self, opened: list[Open]) -> Open:
        """All members that any of them names: they may differ for a moment."""
        members: dict[str, Address] = {}
        for answer in opened:
            members.update(answer.members)
        listed = members.pop(self._me, self._mine)
        if listed != self._mine:
            raise UsageError(
                f"the group has a member {self._me} at {listed}, this node is at {self._mine}: "
                "take another name, or evict the old one first"
            )
        return Open(tuple(sorted(members.items())), max(answer.highest for answer in opened))

    def _waiting(self) -> dict[Address, Seeking]:
        return {a: answer for a, answer in self._answers.items() if isinstance(answer, Seeking)}

    def obstacles(self) -> list[str]:
        """What keeps this node from founding a group, for people. Sorted: equal lists mean equal trouble."""
        waiting = self._waiting()
        found = [] if self._hasty else [f"{at} does not answer: {why}" for at, why in self._missed.items()]
        by_name: dict[str, Address] = {}
        for address, answer in sorted(waiting.items()):
            other = by_name.setdefault(answer.name, address)
            if other != address:
                found.append(f"two nodes are called {answer.name}: at {other} and at {address}")
        if len(self._names) >= MOST_ADDRESSES:
            found.append(f"more than {MOST_ADDRESSES} addresses are named")
        if found:
            return sorted(found)
        back = self._lead_back(waiting)
        if not self._hasty:
            found = [f"{waiting[a].name} at {a} does not name this node" for a in waiting if a not in back]
        founder = _founder({address: waiting[address] for address in waiting if address in back})
        if not found and founder != self._mine:
            found = [f"{waiting[founder].name} at {founder} is to found the group"]
        return sorted(found)

    def _lead_back(self, waiting: dict[Address, Seeking]) -> set[Address]:
        """All nodes whose names lead to this one."""
        named_by: dict[Address, list[Address]] = {}
        for address, answer in waiting.items():
            for name in answer.names:
                named_by.setdefault(self._asked.get(name, name), []).append(address)
        reached, edge = {self._mine}, [self._mine]
        while edge:
            for address in named_by.get(edge.pop(), []):
                if address not in reached:
                    reached.add(address)
                    edge.append(address)
        return reached


def _founder(waiting: dict[Address, Seeking]) -> Address:
    """The node that keeps most of a group that was there before; of a new one, the smallest address."""
    return min(waiting, key=lambda address: (-waiting[address].keeps, address))

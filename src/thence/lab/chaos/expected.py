"""A program: `thence node` in a changing group, with an application whose state can be compared.

The application of `thence node` keeps nothing, so that it could not be told whether a state that was handed
over was the right one, or whether an operation that a returned member sent again took effect twice or never.
This one counts: per incarnation, how many of its operations took effect, and the sum of what they are. Equal
tallies, equal histories.

Beside the data folder a node keeps two files:

    NAME.acknowledged   per incarnation of the node: how many of its operations it may say were accepted
    NAME.tally          when it has stopped in order: what took effect here

Some nodes of a round have a program without a state (`reading.py`). They keep the same tally beside it: a
joiner gets it from any member, and it says what the program should have been told.

Invariant: an operation is acknowledged only after the step that wrote it down. So whatever is acknowledged by
a process that lives on must be in all tallies in the end. Nodes die in the middle of a step here too
(`crash_points.py`).
"""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from thence.lab.chaos import reading
from thence.lab.chaos.crash_points import Doom
from thence.lab.chaos.heard import Places, add_place
from thence.local.node_process import main
from thence.replica.group.surroundings import Applied
from thence.runtime import running
from thence.runtime.drain import Drain
from thence.runtime.node import Node

FILLER: Final = "--filler"
"""The state is so many bytes longer than it need be: a state takes many packets."""
READERS: Final = "--readers"
"""Names of the nodes whose program has no state, with commas between them."""

Tally = dict[str, tuple[int, int]]
"""By incarnation: how many of its operations, and their sum."""


def program(filler: int, readers: Collection[str] = ()) -> tuple[str, ...]:
    which = (READERS, ",".join(readers)) if readers else ()
    return (sys.executable, "-m", "thence.lab.chaos.expected", FILLER, str(filler), *which)


def acknowledged_file(data: Path) -> Path:
    return data.with_name(f"{data.name}.acknowledged")


def tally_file(data: Path) -> Path:
    return data.with_name(f"{data.name}.tally")


class Tallying(Drain):
    """It takes everything at once, and counts it."""

    def __init__(self, data: Path, filler: int) -> None:
        self._data: Final = data
        self._filler: Final = bytes(filler)
        self._tally: Tally = {}
        self.places: Places = {}
        """Which operations they are."""
        self._acknowledged: dict[str, int] = {}
        self._file = -1

    def apply(self, one: Applied) -> None:
        operation = one.operation
        origin, seq = operation.dot
        count, total = self._tally.get(origin, (0, 0))
        what = crc32(operation.payload, seq)
        self._tally[origin] = count + 1, (total + what) % (1 << 64)
        add_place(self.places, origin, seq)

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self._tally, self.places, self._filler))

    def install(self, state: bytes) -> None:
        self._tally, self.places = {}, {}
        if state:  # a founder begins with nothing
            self._tally, self.places, _ = msgspec.msgpack.decode(state, type=tuple[Tally, Places, bytes])

    def stepped(self, node: Node, now: int) -> None:
        del now
        member = node.driver.machine.member if node.driver else None
        if member is None:
            return
        count, _ = self._tally.get(member.me, (0, 0))
        if count > self._acknowledged.get(member.me, 0):
            self._acknowledge(member.me, count)

    def _acknowledge(self, me: str, count: int) -> None:
        path = acknowledged_file(self._data)
        if self._file < 0:
            self._acknowledged = {**read_acknowledged(self._data), **self._acknowledged}
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._acknowledged[me] = count
        os.pwrite(self._file, msgspec.json.encode(self._acknowledged), 0)  # it never gets shorter

    @property
    def tally(self) -> Tally:
        return self._tally

    def write(self) -> None:
        """Down, for the comparison."""
        tally_file(self._data).write_bytes(msgspec.json.encode((self.tally, self.places)))


def read_acknowledged(data: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(acknowledged_file(data).read_bytes(), type=dict[str, int])
    except FileNotFoundError:
        return {}


def read_tally(data: Path) -> Tally | None:
    try:
        return msgspec.json.decode(tally_file(data).read_bytes(), type=tuple[Tally, Places])[0]
    except FileNotFoundError:
        return None


def read_places(data: Path) -> Places:
    """Of one that has left a tally."""
    return msgspec.json.decode(tally_file(data).read_bytes(), type=tuple[Tally, Places])[1]


def compare(tallies: Mapping[str, Tally], acknowledged: Mapping[str, Mapping[str, int]]) -> str:
    """What is wrong with the tallies of those who are members in the end, given what they, and those who left
    in order, had acknowledged; nothing if they are right."""
    told = []
    [first, *others] = tallies
    for name in others:
        differ = sorted(_differing(tallies[first], tallies[name]))
        if differ:
            told.append(f"{first} and {name} have other operations of {', '.join(differ)}")
    for name, tally in tallies.items():
        for process, counts in acknowledged.items():
            for member, count in counts.items():
                there = tally.get(member, (0, 0))[0]
                if there < count:
                    told.append(f"{name} has {there} operations of {member}; {process} acknowledged {count}")
    return "; ".join(told[:5])


def _differing(one: Tally, other: Tally) -> set[str]:
    return {member for member in one.keys() | other.keys() if one.get(member) != other.get(member)}


def run(arguments: list[str], make: Callable[[Path, int], Tallying] = Tallying) -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(FILLER, type=int, default=0)
    parser.add_argument(READERS, default="")
    given, arguments = parser.parse_known_args(arguments)
    data = Path(arguments[arguments.index("--data") + 1])
    Doom(data).install()
    application = make(data, given.filler)
    if arguments[arguments.index("--name") + 1] in given.readers.split(","):
        setattr(running, "run", lambda settings: reading.run(settings, application))  # noqa: B010
    else:
        setattr(running, "Drain", lambda: application)  # noqa: B010 - not exported, on purpose
    code = main(arguments)
    application.write()
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

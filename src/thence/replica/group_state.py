"""The state that a contact hands to a joiner, and that a member starts from after a restart.

One piece of bytes, spelled with names: the application's state, which is opaque here, and everything that the
group knows. A member's log begins with the state that it was installed with (a founder's is empty), and what
it delivered since follows; both together are the member.
"""

from dataclasses import dataclass, field

from thence.core.errors import PeerError
from thence.core.group_words import Parser, Writer
from thence.core.groups import Named, Place
from thence.members.group import Final
from thence.members.operations import Operation

VERSION = 2


@dataclass(slots=True)
class GroupState:
    application: bytes = b""
    counts: dict[str, int] = field(default_factory=dict)
    """Delivered messages per incarnation, departed ones included."""
    stable: dict[str, int] = field(default_factory=dict)
    context: tuple[Place, ...] = ()
    table: list[str] = field(default_factory=list)
    """Names by the index that they have in the log of whoever wrote this."""
    log: list[Named] = field(default_factory=list)
    """Delivered and not stable, in the order of delivery. A member that writes itself down has them in its
    log and leaves them out."""
    view: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    gone: dict[str, Final] = field(default_factory=dict)
    departing: dict[str, int] = field(default_factory=dict)
    flushed: dict[str, set[str]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    retained: list[Operation] = field(default_factory=list)
    """Operations that somebody may lack although their messages are stable. A member that writes itself down
    leaves out those that are in its log."""
    floor: dict[str, int] = field(default_factory=dict)
    """Of the member itself: up to where its log need not be kept for that."""
    carried: set[Place] = field(default_factory=set)
    orphans: list[Operation] = field(default_factory=list)
    """Of the member itself: what its former incarnation had applied and this state lacks."""
    leaves: bool = False
    """Of the member itself: the former incarnation was leaving, and so will this one."""
    goes_on: bool = False
    """Of the member itself: it did not begin with this state, but wrote it down on its way."""

    def names(self) -> list[str]:
        """Every incarnation that is spoken of, in an order of its own."""
        spoken = set(self.counts) | self.view | self.suspects | set(self.gone) | set(self.departing)
        spoken.update(name for message in self.log for name, _ in message.context)
        spoken.update(message.origin for message in self.log)
        spoken.update(name for name, _ in self.context)
        spoken.update(name for row in self.rows.values() for name in row)
        return sorted(spoken)


def encode_state(state: GroupState) -> bytes:
    writer = Writer()
    writer.number(VERSION)
    writer.data(state.application)
    for counts in (state.counts, state.stable, state.departing):
        writer.counts(counts)
    writer.places(state.context)
    writer.names(state.table)
    writer.number(len(state.log))
    for message in state.log:
        writer.message(message)
    for names in (state.view, state.suspects):
        writer.names(sorted(names))
    writer.number(len(state.gone))
    for name, final in state.gone.items():
        writer.name(name)
        writer.number(final.last << 1 | final.evicted)
    writer.number(len(state.flushed))
    for name, flushed in state.flushed.items():
        writer.name(name)
        writer.names(sorted(flushed))
    writer.texts(state.addresses)
    writer.number(len(state.rows))
    for name, row in state.rows.items():
        writer.name(name)
        writer.counts(row)
    put_operations(writer, state.retained)
    writer.counts(state.floor)
    writer.places(sorted(state.carried))
    put_operations(writer, state.orphans)
    writer.number(state.leaves | state.goes_on << 1)
    return writer.bytes()


def decode_state(data: bytes) -> GroupState:
    parser = Parser(data, 0, len(data))
    if parser.number() != VERSION:
        raise PeerError("a state of another version")
    state = GroupState(parser.data(), parser.counts(), parser.counts())
    state.departing = parser.counts()
    state.context = parser.places()
    state.table = list(parser.names())
    state.log = [parser.message() for _ in range(parser.count())]
    state.view, state.suspects = set(parser.names()), set(parser.names())
    for _ in range(parser.count()):
        name, final = parser.name(), parser.number()
        state.gone[name] = Final(final >> 1, bool(final & 1))
    state.flushed = {parser.name(): set(parser.names()) for _ in range(parser.count())}
    state.addresses = parser.texts()
    state.rows = {parser.name(): parser.counts() for _ in range(parser.count())}
    state.retained = take_operations(parser)
    state.floor = parser.counts()
    state.carried = set(parser.places())
    state.orphans = take_operations(parser)
    flags = parser.number()
    state.leaves, state.goes_on = bool(flags & 1), bool(flags & 2)
    parser.end()
    return state


def put_operations(writer: Writer, operations: list[Operation]) -> None:
    writer.number(len(operations))
    for operation in operations:
        writer.name(operation.origin)
        writer.number(operation.seq)
        writer.data(operation.payload)


def take_operations(parser: Parser) -> list[Operation]:
    return [Operation(parser.name(), parser.seq(), parser.data()) for _ in range(parser.count())]


def names_payload(names: list[str]) -> bytes:
    """The body of a message about membership."""
    writer = Writer()
    writer.names(names)
    return writer.bytes()


def payload_names(data: bytes) -> tuple[str, ...]:
    parser = Parser(data, 1, len(data))
    names = parser.names()
    parser.end()
    return names


def join_payload(joiner: str, address: str) -> bytes:
    """The body of a message that lets somebody in."""
    writer = Writer()
    writer.names([joiner])
    writer.texts({joiner: address})
    return writer.bytes()


def payload_join(data: bytes) -> tuple[tuple[str, ...], dict[str, str]]:
    """Who is let in, and where they are reached."""
    parser = Parser(data, 1, len(data))
    names, addresses = parser.names(), parser.texts()
    parser.end()
    return names, addresses


def operations_payload(operations: list[Operation]) -> bytes:
    writer = Writer()
    put_operations(writer, operations)
    return writer.bytes()


def payload_operations(data: bytes) -> list[Operation]:
    parser = Parser(data, 1, len(data))
    operations = take_operations(parser)
    parser.end()
    return operations


def watched_note(upto: int, names: list[str]) -> bytes:
    """Of the joiners that this member let in up to its message `upto`, those that were not heard of."""
    writer = Writer()
    writer.number(upto)
    writer.names(names)
    return writer.bytes()


def read_watched(data: bytes) -> tuple[int, tuple[str, ...]]:
    parser = Parser(data, 0, len(data))
    return parser.number(), parser.names()

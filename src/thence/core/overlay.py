"""What nodes of a partial-view overlay say to each other: membership, and synchronised streams.

Only values, as `core.machine` has them for the full mesh; what they mean is told where they are used
(docs/protocols/hyparview.md, sync-tree.md, eco-sync-tree.md).
"""

from typing import Final, NamedTuple

from thence.core.groups import Fragment, FragmentReceipt
from thence.core.message import Message


class Join(NamedTuple):
    """Take me in, and tell others of me."""


class ForwardJoin(NamedTuple):
    """`node` wants neighbours; a walk of `steps` more steps decides which become neighbours."""

    node: int
    steps: int


class Neighbour(NamedTuple):
    """Be my neighbour. An `urgent` node is not refused."""

    urgent: bool


class Accept(NamedTuple):
    """You are my neighbour from here on."""


class Refuse(NamedTuple):
    """No room."""


REPLACED, LEAVING = range(2)
"""Why a neighbour is dropped: for another one, or because the sender goes for good."""


class Disconnect(NamedTuple):
    """You are not my neighbour any more. `instead` took your place, if it is not the receiver itself: a
    node with a place to fill."""

    reason: int
    instead: int


class Shuffle(NamedTuple):
    """Some nodes that `origin` knows, on a walk of `steps` more steps."""

    origin: int
    steps: int
    nodes: tuple[int, ...]


class ShuffleReply(NamedTuple):
    """As many in return."""

    nodes: tuple[int, ...]


ROOT_BITS: Final = 40
"""Of a root's name, below its rank: enough that the hashes of thousands of names do not meet."""


class Tree(NamedTuple):
    """The `number`th beat of the tree that `root` keeps, over a branch. A root is named by its rank and, in
    the low `ROOT_BITS`, by a number that is the same at every node: the lower name wins."""

    root: int
    number: int


class Announce(NamedTuple):
    """The same over a link that is no branch: the sender has had this beat."""

    root: int
    number: int


class Graft(NamedTuple):
    """Make this link a branch. Send me what this clock lacks, and then everything."""

    version: int
    clock: tuple[int, ...]


class Prune(NamedTuple):
    """Make this link no branch: send me nothing."""

    version: int


class Resync(NamedTuple):
    """My stream to you has a gap (a state took the place of messages): graft again."""


class Sync(NamedTuple):
    """A piece of what the clock of the graft of this `version` lacked (0: of a pull), causes first.
    `last`: from here on the stream is live."""

    version: int
    messages: tuple[Message, ...]
    last: bool


class More(NamedTuple):
    """A piece has arrived and is written down; there is room for the next."""


class Ping(NamedTuple):
    """How far is it? `stamp` is the sender's."""

    stamp: int


class Pong(NamedTuple):
    """The stamp of a ping."""

    stamp: int


class Pull(NamedTuple):
    """Send me what this clock lacks, and nothing else."""

    clock: tuple[int, ...]


class StatePiece(NamedTuple):
    """Piece `place` of `pieces` of a state that reflects everything up to `clock`, in answer to the graft
    of this `version`."""

    version: int
    clock: tuple[int, ...]
    place: int
    pieces: int
    data: bytes


class Naming(NamedTuple):
    """From here on, in this direction of a link, these names stand behind the indices from `first` on: of
    incarnations, whose messages clocks and dots count."""

    first: int
    names: tuple[str, ...]


class Places(NamedTuple):
    """And these processes behind these indices, each with the address where it is reached (empty: unknown):
    of nodes that views speak of. Index 0 is the sender."""

    places: tuple[tuple[int, str, str], ...]


class Shared(NamedTuple):
    """The sender orders by clocks of so many entries, of which each member has so many keys: the first packet
    over a link between nodes that do."""

    entries: int
    keys: int


class Rumour(NamedTuple):
    """A message by the low byte of each counter of its clock, and a sum over the whole clock
    (`core.rumours`)."""

    dot: int
    low: bytes
    check: int
    payload: bytes


MembersPacket = Join | ForwardJoin | Neighbour | Accept | Refuse | Disconnect | Shuffle | ShuffleReply
StreamPacket = Tree | Announce | Graft | Prune | Resync | Sync | More | Pull | StatePiece | Ping | Pong
OverlayPacket = MembersPacket | StreamPacket | Naming | Places | Shared | Rumour | Fragment | FragmentReceipt

MEMBERS_PACKETS: Final = (Join, ForwardJoin, Neighbour, Accept, Refuse, Disconnect, Shuffle, ShuffleReply)

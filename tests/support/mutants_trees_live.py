"""Planted bugs in nodes of a tree that are made like live ones; see `support.mutants`.

`DURABLE` are bugs of the protocols themselves, from `support.mutants_trees`, that must be found over logs on
bad disks as well.
"""

from dataclasses import replace

from support.mutants import Mutant, of, through
from support.mutants_trees import ECO, STREAMS, TREE

OVERLAY = of(
    "thence.replica.overlay",
    ("a link that is about to be closed is listened to", "closing", "closed",
     (":Overlay.receive", "        if peer not in self._linked:\n            return []\n", "")),
    ("streams hear strangers", "strangers", "PeerError",
     (":Overlay.receive", "        if peer not in self.members.neighbours:\n            return []  # it",
      "        if False:\n            return []  # it")),
    ("a link is wanted again before it is closed", "wished", "wished",
     (":Overlay.wished", "elif wanted.get(wish.peer, True):", "elif True:")),
    ("neighbours are not told to the stream", "storms", "lost",
     (":Overlay._membership", "effects += self.streams.up(effect.peer, now)", "pass")),
)  # fmt: skip

TREE_NODE = of(
    "thence.replica.tree",
    ("a stream leaves out what the step has brought", "middle", "lost",
     ("thence.replica.tree_history:StepHistory.missing", "        for message in self.gathered:\n",
      "        for message in ():\n")),
    ("what was sent under a former name is taken", "renamed", "twice",
     (":TreeReplica.is_own", " or position <= self._past.get(origin, 0)", "")),
    ("what comes back of a former name is not taken", "renamed", "twice",
     (":TreeReplica.is_own", "position <= self._past.get(origin, 0)", "origin in self._past")),
    ("a new name is not told to the streams", "renamed", "PeerError",
     (":TreeReplica.become", "        self._overlay.streams.become(me)\n", "")),
)  # fmt: skip

FORMER = "thence.replica.tree_former"
CHANNEL = "thence.replica.tree_channel"

OPEN_TREE = of(
    "thence.replica.open_tree",
    ("broadcasts do not wait for a first neighbour", "waits", "early",
     (":OpenTree.__init__", "now + GREET_US if contacts else 0", "0")),
    ("broadcasts wait for ever", "waits", "late",
     (f"{FORMER}:FormerSelf.greeted", "                self.greet_until = 0\n", "                pass\n"),),
    ("a graft that knows more is passed over", "put back", "name",
     (f"{FORMER}:FormerSelf.is_known_better",
      "        if isinstance(packet, Graft | Pull | StatePiece):\n            most",
      "        if isinstance(packet, StatePiece):\n            most")),
    ("a node that has sent is renamed", "put back", "dot",
     (f"{FORMER}:FormerSelf.is_known_better", "        if sent > self._sent_before:\n",
      "        if False:\n")),
    ("a node is renamed whenever it is told", "put back", "lies",
     (f"{FORMER}:FormerSelf.is_known_better", " or self.born:\n", ":\n")),
    ("a process is the last of its names that it has learnt", "same name", "name",
     (":OpenTree.__init__", "log.notes.get(ME, name.encode()).decode() if own",
      "[known for known in self._members.names if process_of(known) == name][-1] if own")),
    ("a peer speaks for others", "lying", "lies",
     (f"{CHANNEL}:TreeChannels._learn", "            if (theirs == 0) is not (name == peer):\n",
      "            if False:\n")),
    ("hearsay counts", "hearsay", "hearsay",
     (f"{CHANNEL}:TreeChannels._learn", "if theirs == 0 or not processes.address(known):", "if True:")),
    ("a wish that leaves late closes the next link", "held back", "held",
     (":OpenTree.linked", "return index is not None and self._channels.get(index) is not None",
      "return False")),
    ("what is sent in a turn is several messages", "turn", "split",
     (":OpenTree.broadcast", "for run in order.runs(payloads):", "for run in zip(payloads):")),
    ("the rest of a large message never leaves", "large", "lost",
     (f"{CHANNEL}:TreeChannels.posts",
      "            posts += [(processes.name(peer), packet) for packet in self._channels[peer].go_on()]\n",
      "            pass\n")),
    ("a fragment is left out", "large", "PeerError",
     (f"{CHANNEL}:TreeChannel._due", "self._window_bytes))", "self._window_bytes))[1:]")),
    ("a message overtakes the large one before it", "large", "PeerError",
     (f"{CHANNEL}:TreeChannel.add", "        if self.fragmenting.busy:\n", "        if False:\n")),
    ("all fragments leave at once", "large", "window",
     (f"{CHANNEL}:TreeChannel._due", "self._window_bytes))", "1 << 40))")),
    ("what comes behind a large message is kept in memory", "large", "memory",
     (f"{CHANNEL}:TreeChannels._cut", "            self._overlay.hold(peer)\n", "")),
    ("after a large message the stream stays held", "large", "lost",
     (f"{CHANNEL}:TreeChannels.acknowledged", "return was_held and index not in self._choked",
      "return False")),
    ("fragments are not acknowledged", "large", "lost",
     (":OpenTree.receive", "            self._effects.append(Transmit((index,), channel.receipt))\n", "")),
    ("what came of a large message outlives its link", "cut off", "lost",
     (f"{CHANNEL}:TreeChannels.up",
      "self._channels[index] = TreeChannel(\n"
      "            tongue, order.codec.encode, self._packet_bytes, self._window_bytes\n        )",
      "self._channels.setdefault(index, TreeChannel(\n"
      "            tongue, order.codec.encode, self._packet_bytes, self._window_bytes\n        ))"),
     (f"{CHANNEL}:TreeChannels.down", "            self._channels.pop(index, None)\n", "")),
    ("names are not told", "storms", "PeerError",
     (f"{CHANNEL}:TreeChannels.posts",
      "posts += [(to, first) for first in channel.tongue.before(packet, names, processes)]\n",
      "list(channel.tongue.before(packet, names, processes))\n")),
    ("a process that forgot goes on under its name", "forgets", "PeerError",
     (":OpenTree.__init__", "        if own and forgetful:\n            self._become(now, ends=False)\n", ""),
     (f"{FORMER}:FormerSelf.is_known_better", "        if most <= sent:\n", "        if True:\n")),
)  # fmt: skip

TONGUE = of(
    "thence.replica.tree_names",
    ("clocks stay in the sender's order", "integers", "clock",
     (":Tongue._understood", "                    clock[member] = count\n",
      "                    clock[member - 1] = count\n")),
    ("names become known that no clock counts", "integers", "clock",
     (":Tongue._understood", "for index, count in enumerate(packet.clock) if count]",
      "for index, count in enumerate(packet.clock)]")),
    ("dots stay as they were", "integers", "dot",
     (":Tongue._message",
      "return Message(mine, message.context, message.payload, (), message.span)",
      "return message")),
    ("names are told once and for all", "told", "names",
     (":Tongue.before", "                self._told += len(some)\n",
      "                self._told = 1 << 20\n")),
    ("a process whose index is another's is not told", "told", "places",
     (":Tongue.forget",
      "        self._told_places -= {node for node in self._told_places if node not in processes}\n",
      "        pass\n")),
)  # fmt: skip

ECO_NODE = of(
    "thence.replica.eco",
    ("a state replaces what the program has", "in a step", "state",
     (":EcoReplica.install", "            self._application.merge(state)\n",
      "            self._application.install(state)\n")),
    ("the program goes on with its own state", "in a step", "state",
     (":EcoReplica.install", "            self._application.merge(state)\n", "")),
    ("a state is kept before the step is", "in a step", "state",
     (":EcoReplica._settle_down",
      "        self._owed += super().commit(now)\n        while self.inbox:\n            self.take(now)\n",
      "")),
    ("a snapshot lacks what came before it", "in a step", "state",
     (":EcoReplica._settle_down", "        while self.inbox:\n            self.take(now)\n", "")),
    ("states are not told in the trace", "storms", "order",
     (":EcoReplica.install", "self._diary.row(INSTALL, None, self._places(both), now, size=len(state))",
      "pass")),
    ("what is owed to the disk is forgotten", "owing", "owed",
     (":EcoReplica.commit", "        return [*owed, *super().commit(now)]\n",
      "        return super().commit(now)\n")),
)  # fmt: skip

IMPORTANT = (
    "what was there is taken again", "the past is not sent", "messages are not forwarded",
    "a graft is not answered with one's own", "T4a:", "T2:", "T3:", "T1c:",
)  # fmt: skip


def _durable(mutants: list[Mutant]) -> list[Mutant]:
    return [
        replace(mutant, check="durable storms", finds="something")
        for mutant in mutants
        if mutant.name.startswith(IMPORTANT)
    ]


DURABLE = through("thence.spread.sync_tree", _durable(STREAMS)) + _durable(TREE) + _durable(ECO)

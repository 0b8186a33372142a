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
    ("streams hear everybody", "strangers", "PeerError",
     (":Overlay.receive", "        if peer not in self.members.neighbours:\n            return []  # it",
      "        if False:\n            return []  # it")),
    ("neighbours are not told to the stream", "storms", "lost",
     (":Overlay._membership", "effects += self.streams.up(effect.peer, now)", "pass")),
)  # fmt: skip

TREE_NODE = of(
    "thence.replica.tree",
    ("a stream leaves out what the step has brought", "middle", "lost",
     (":StepHistory.missing", "        for message in self.gathered:\n", "        for message in ():\n")),
    ("what was sent under a former name is taken", "renamed", "twice",
     (":TreeReplica.is_own", " or position <= self._past.get(origin, 0)", "")),
    ("what comes back of a former name is not taken", "renamed", "twice",
     (":TreeReplica.is_own", "position <= self._past.get(origin, 0)", "origin in self._past")),
    ("a new name is not told to the streams", "renamed", "PeerError",
     (":TreeReplica.become", "        self._overlay.streams.become(me)\n", "")),
)  # fmt: skip

OPEN_TREE = of(
    "thence.replica.open_tree",
    ("broadcasts do not wait for a first neighbour", "waits", "early",
     (":OpenTree.__init__", "now + GREET_US if contacts else 0", "0")),
    ("broadcasts wait for ever", "waits", "late",
     (":OpenTree._look_for_more", "            self._greet_until = 0\n", "            pass\n"),),
    ("a graft that knows more is passed over", "put back", "name",
     (":OpenTree._look_for_more",
      "        if isinstance(packet, Graft | Pull | StatePiece):\n            most",
      "        if isinstance(packet, StatePiece):\n            most")),
    ("a node that has sent is renamed", "put back", "dot",
     (":OpenTree._look_for_more", "            if sent > self._sent_before:\n", "            if False:\n")),
    ("a node is renamed whenever it is told", "put back", "lies",
     (":OpenTree._look_for_more", " or self._born:\n", ":\n")),
    ("a process is the last of its names that it has learnt", "same name", "name",
     (":OpenTree.__init__", "log.notes.get(ME, name.encode()).decode() if own",
      "[known for known in self._names if process_of(known) == name][-1] if own")),
    ("a peer speaks for others", "lying", "lies",
     (":OpenTree._learn", "            if (theirs == 0) is not (name == peer):\n",
      "            if False:\n")),
    ("hearsay counts", "hearsay", "hearsay",
     (":OpenTree._learn", "if theirs == 0 or not self.processes.address(known):", "if True:")),
    ("names are not told", "storms", "PeerError",
     (":OpenTree.output",
      "                        posts += [(to, first) for first in before]\n",
      "                        list(before)\n")),
    ("a process that forgot goes on under its name", "forgets", "PeerError",
     (":OpenTree.__init__", "        if own and forgetful:\n            self._become(now, ends=False)\n", ""),
     (":OpenTree._look_for_more", "        if most > sent:\n", "        if False:\n")),
)  # fmt: skip

TONGUE = of(
    "thence.replica.tree_names",
    ("clocks stay in the sender's order", "integers", "clock",
     (":Tongue._understood", "                    clock[member] = count\n",
      "                    clock[member - 1] = count\n")),
    ("names become known that nobody counts", "integers", "clock",
     (":Tongue._understood", "for index, count in enumerate(packet.clock) if count]",
      "for index, count in enumerate(packet.clock)]")),
    ("dots stay as they were", "integers", "dot",
     (":Tongue._message",
      "return message if mine == dot else Message(mine, message.context, message.payload)",
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
     (":EcoReplica.install", "        self._diary.row(INSTALL, None, self._places(both), now)", "       ")),
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

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
    ("nobody looks for smaller nodes", "seeks", "seek",
     (":Overlay._seek", "if self.root == self._me and smaller:", "if False:")),
    ("everybody looks for smaller nodes", "seeks", "thrift",
     (":Overlay._seek", "if self.root == self._me and smaller:", "if smaller:")),
    ("some are not asked what they have", "asks all", "lost",
     (":Overlay.regain", "dict.fromkeys(self.members.contacts)", "dict.fromkeys(self.members.contacts[1:])")),
    ("an answer that is not the last one counts", "asks all", "early",
     (":Overlay._given_back", "        if not answer.last:\n", "        if False:\n")),
    ("what is given back is passed over", "forgets", "PeerError",
     (":Overlay._given_back", "effects = self.streams.take_in(peer, answer.messages)",
      "effects: list[SpreadEffect] = []")),
    ("neighbours are not told to the stream", "storms", "lost",
     (":Overlay._membership", "effects += self.streams.up(effect.peer, now)", "pass")),
)  # fmt: skip

TREE_NODE = of(
    "thence.replica.tree",
    ("a stream leaves out what the step has brought", "middle", "lost",
     (":StepHistory.missing", "        for message in self.gathered:\n", "        for message in ():\n")),
    ("somebody's knowledge of lost messages is passed over", "old copy", "PeerError",
     (":TreeReplica._refuse_to_count_twice", "            raise ForgottenError(",
      "            raise PeerError(")),
    ("somebody's knowledge of lost messages stops the node", "old copy", "StorageError",
     (":TreeReplica._refuse_to_count_twice", "            raise ForgottenError(",
      "            raise StorageError("),
     (":", "from thence.core.errors import PeerError\n",
      "from thence.core.errors import PeerError, StorageError\n")),
    ("a graft that knows more is passed over", "old copy", "copy",
     (":TreeReplica.receive", "        if isinstance(packet, Graft):\n", "        if False:\n")),
    ("what others have is not asked for", "forgets", "PeerError",
     (":TreeReplica.regain", "        self._overlay.regain()\n", "        pass\n")),
)  # fmt: skip

ECO_NODE = of(
    "thence.replica.eco",
    ("a state in the log is not counted at a restart", "counted", "counted",
     (":EcoReplica._recall_state", "        kept[:] = map(max, kept, _wide(clock, self._size))\n", "")),
    ("the application goes on with its own state", "storms", "InvariantError",
     (":EcoReplica.install", "        self._keeper.adopt(merged)\n", "")),
    ("a state replaces what the node has", "storms", "InvariantError",
     (":EcoReplica.install", "            merged = self._keeper.merged(state)\n",
      "            merged = state\n")),
    ("a restart begins without the snapshot", "storms", "InvariantError",
     (":EcoReplica._restore", "            self._keeper.adopt(snapshot.data)\n", "            pass\n")),
    ("a restart applies again what the snapshot has", "storms", "InvariantError",
     (":EcoReplica._restore", "            after = snapshot.covers\n", "            pass\n")),
    ("own messages are not applied", "storms", "InvariantError",
     (":EcoReplica._sent",
      "        delivered = super()._sent(message, now)\n        self._keeper.apply(message)\n",
      "        delivered = super()._sent(message, now)\n")),
    ("a state is kept before the step is", "in a step", "state",
     (":EcoReplica._settle_down",
      "        self._owed += super().commit(now)\n        while self.inbox:\n            self.take(now)\n",
      "")),
    ("a snapshot lacks what came before it", "in a step", "state",
     (":EcoReplica._settle_down", "        while self.inbox:\n            self.take(now)\n", "")),
    ("states are not told in the trace", "storms", "order",
     (":EcoReplica.install", "        self._recorder.record_deps(INSTALL, 0, frontier, now)\n", "")),
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

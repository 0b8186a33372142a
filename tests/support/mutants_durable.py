"""Planted bugs in the durable replica; see `support.mutants`."""

from support.mutants import of

DURABLE = of(
    "thence.replica.durable",
    ("own messages are not written down", "committed", "dot",
     ("        self._log.append(delivered.message.dot, self._codec.encode(delivered.message))\n", "")),
    ("own messages are not remembered", "committed", "UsageError",
     ("            if origin == me or stored.position <= self.taken:\n",
      "            if origin != me and stored.position <= self.taken:\n")),
    ("everything in the log counts as taken", "position", "stamp",
     ("if origin == me or stored.position <= self.taken:", "if True:")),
    ("nothing in the log counts as taken", "position", "stamp",
     ("if origin == me or stored.position <= self.taken:", "if origin == me:")),
    ("what was not taken is forgotten", "position", "lost",
     ("                self.inbox.append(message)\n", "                pass\n")),
    ("the position is that of the next message", "position", "stamp",
     ("        self.taken = self._positions.popleft()\n        return super().take(now)",
      "        self._positions.popleft()\n        self.taken = self._positions[0]\n"
      "        return super().take(now)")),
    ("the order forgets what was delivered", "goes on", "held",
     ("            self._orderer.sent(message, now)\n", "")),
    ("what is released is not kept", "held", "ack",
     ("                self._route(self._spread.keep(effect.dot, now), NOBODY, effects, now)\n", "")),
    ("the spread is not told that the node is durable", "held", "ack",
     ("        self._spread.recall(tuple(kept), own, now)\n", "")),
    ("own messages are not handed back to the spread", "repeated", "lost",
     ("self._spread.recall(tuple(kept), own, now)", "self._spread.recall(tuple(kept), [], now)")),
    ("stability is not written down", "stable once", "twice",
     ("            self._log.mark_stable(self._stable)\n", "            pass\n")),
    ("what was announced is not remembered", "stable once", "twice",
     ("            self._witness.recall_stable(tuple(self._stable))\n", "            pass\n")),
    ("payloads are not written down", "as sent", "log",
     ("self._log.append(effect.dot, self._codec.encode(effect))",
      'self._log.append(effect.dot, self._codec.encode(Message(effect.dot, effect.context, b"")))')),
)  # fmt: skip

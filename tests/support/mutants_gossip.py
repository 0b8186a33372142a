"""Planted bugs in gossip, its rumours, and the order of nodes without a view; see `support.mutants`."""

from support.mutants import of

GOSSIP = of(
    "thence.spread.gossip",
    ("a message beyond a gap counts for all before it", "calm", "lost",
     (":Gossip._came", "        if seq > clock[origin] + 1:\n", "        if False:\n")),
    ("nobody asks", "calm", "lost",
     (":Gossip._ask", "        effects.append(Transmit((peer,), Pull(tuple(self._clock))))\n", "")),
    ("after a restart everything counts as missing", "storms", "PeerError",
     (":Gossip.recall", "        self._clock = list(kept)", "        self._clock = [0 for _ in kept]")),
)  # fmt: skip

ORDER = of(
    "thence.replica.tree_order",
    ("what the program took is not remembered", "calm", "undoubted",
     (":Clocked.took", "        self._detector.remember(message)\n", "")),
    ("nothing is doubted", "calm", "undoubted",
     (":Clocked.took", "        return found\n", "        return []\n")),
    ("what the program takes does not count in what it sends", "calm", "undoubted",
     (":Clocked.took", "        self._tagger.took(message)\n", "")),
    ("after a restart the program has seen nothing", "restart", "stamp",
     (":Clocked.resume", "tuple(clock_of(self._keys, seen))", "tuple(clock_of(self._keys, ()))")),
    ("after a restart nothing was released", "restart", "held",
     (":Clocked.resume", "        self._orderer.resume(tuple(kept))\n", "")),
)  # fmt: skip

RUMOURS = of(
    "thence.core.rumours",
    ("nobody checks the sum", "same", "stamp",
     (":whole", "    if crc32(_wide(stamp)) != rumour.check:\n        return None\n", "")),
    ("counters are never behind the receiver's", "same", "lost",
     (":whole", "counter + (low - own + HALF) % SPAN - HALF", "counter + (low - own) % SPAN")),
    ("counters may be negative", "same", "OverflowError",
     (":whole", "    if min(stamp) < 0:\n", "    if False:\n")),
)  # fmt: skip

"""Planted bugs in gossip, its rumours, and the order of nodes without a view; see `support.mutants`."""

from support.mutants import of

GOSSIP = of(
    "thence.spread.gossip",
    ("a message beyond a gap counts for all before it", "calm", "lost",
     (":Gossip._came", "        if seq > clock[origin] + 1:\n", "        if False:\n")),
    ("no node asks", "calm", "lost",
     (":Gossip._ask", "        effects.append(Transmit((peer,), Pull(tuple(self._clock))))\n", "")),
    ("after a restart everything counts as missing", "storms", "PeerError",
     (":Gossip.recall", "        self._clock = list(kept)", "        self._clock = [0 for _ in kept]")),
    ("what was let go counts as one that came", "forgotten", "forgotten",
     (":Gossip.forget", "min(self._clock[origin], seq - 1)", "self._clock[origin]")),
    ("with what was let go all after it is forgotten", "forgotten", "forgotten",
     (":Gossip.forget", "            self._early.add(pack(origin, later))\n", "            pass\n")),
    ("what was let go beyond a gap counts as one that came", "forgotten", "forgotten",
     (":Gossip.forget", "        self._early.discard(dot)\n", "")),
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
    ("a stamp may be as far ahead as it likes", "ahead", "ahead",
     (":Clocked.check", "> AHEAD_MOST", "> 1 << 40")),
    ("only the lowest entry is looked at", "ahead", "ahead",
     (":Clocked.check", "max(map(sub", "min(map(sub")),
    ("what comes over a tree may wait", "early", "early",
     (":Clocked.must_follow", "if early is not None:", "if False:")),
    ("as many messages wait as come", "crowd", "crowded",
     (":Clocked.crowded", "self._orderer.waiting > HELD_MOST or ", "")),
    ("as many bytes wait as come", "crowd", "crowded",
     (":Clocked.crowded", " or self._orderer.waiting_bytes > HELD_BYTES", "")),
    ("after a restart nothing was released", "restart", "held",
     (":Clocked.resume", "        self._orderer.resume(tuple(kept))\n", "")),
)  # fmt: skip

RUMOURS = of(
    "thence.core.rumours",
    ("the sum is not checked", "same", "stamp",
     (":whole", "    if crc32(_wide(stamp)) != rumour.check:\n        return None\n", "")),
    ("counters are never behind the receiver's", "same", "lost",
     (":whole", "counter + (low - own + HALF) % SPAN - HALF", "counter + (low - own) % SPAN")),
    ("counters may be negative", "same", "OverflowError",
     (":whole", "    if min(stamp) < 0:\n", "    if False:\n")),
)  # fmt: skip

RIGHT = of(
    "thence.replica.tree_right",
    ("a state is kept that has what was doubted", "dropped", "kept",
     (":EarlierStates.doubted", "not any(self._kept[-1].has(one.dot) for one in doubts)", "True")),
    ("one doubt that a state does not have is enough to keep it", "dropped", "kept",
     (":EarlierStates.doubted", "not any(self", "not all(self")),
    ("doubts that may not be all are taken for all", "dropped", "kept",
     (":EarlierStates.doubted", "all_of_them and not", "not")),
    ("states are made as often, however large", "seldom", "made",
     (":EarlierStates.due", "max(EVERY, size // SHARE)", "EVERY")),
)  # fmt: skip

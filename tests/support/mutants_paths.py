"""Bugs planted into path counters, each with the seed of a storm, or the name of a check, that finds it."""

from support.mutants_groups import GroupMutant, of

NODE = "thence.spread.edge_paths:PathNode"
NEAR = "            if receiver in near\n            and self._lacks"

MUTANTS: list[GroupMutant] = [
    of("no_needs: copies carry no barriers", 1,
       (f"{NODE}._send", NEAR, NEAR.replace("receiver in near", "not receiver"))),
    of("needs_unchecked: barriers are not looked at", 1,
       (f"{NODE}._is_ready", "            if receiver == self.me\n", "            if not receiver\n")),
    of("needs_off: a barrier is met one too early", 1,
       (f"{NODE}._is_ready", "self.had.get(who, 0) >= number", "self.had.get(who, 0) + 1 >= number")),
    of("needs_target: barriers for the receiver alone", 6,
       (f"{NODE}._send", NEAR, NEAR.replace("receiver in near", "receiver == to"))),
    of("numbers_target: numbers for the receiver alone", 1,
       (f"{NODE}._send", "            if receiver in near and missing:",
        "            if receiver == to and missing:")),
    of("by_counters: duplicates are known by counters", 0,
       (f"{NODE}.is_new", "        return number > self.last.get(origin, 0)\n",
        "        own = copy.numbers.get(self.me, {})\n"
        "        return not any(count <= self.had.get(who, 0) for who, count in own.items())\n")),
    of("no_advance: numbers of duplicates do not count", 0,
       (f"{NODE}._repeated", "        return self._cover(copy.numbers.get(self.me, {}))\n",
        "        return False\n")),
    of("no_next: a number need not be the next", "next",
       (f"{NODE}.is_next", "number == self.had.get(who, 0) + 1", "number > self.had.get(who, 0)")),
    of("needs_above: a barrier is kept although it is above the own number", "above",
       (f"{NODE}._send", "number < record.numbers.get(receiver, {}).get(who, number + 1)", "number")),
]  # fmt: skip

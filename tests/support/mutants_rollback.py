"""Bugs planted into what members do when a process was put back to an earlier state."""

from support.mutants_groups import BIRTHS, CARRYING, INSTALLING, LIVES, MEMBER, NODE, NOTICES, GroupMutant, of

LINEAGE = "thence.replica.group_lineage"
TIMELINES = "thence.members.timelines"

SAME_COUNTERS = "other messages under the same counters"

MUTANTS: list[GroupMutant] = [
    of("starts are not compared", SAME_COUNTERS,
       (f"{LINEAGE}:Lineages._judge", "found = fork(own, count, said.starts[name], theirs)", "found = None")),
    of("messages do not name their start", SAME_COUNTERS,
       (f"{MEMBER}:Member.broadcast", "            payload = started(self._start, payload)\n",
        "            pass\n")),
    of("two operations of one counter are one", SAME_COUNTERS,
       (f"{BIRTHS}:_unknown", "        place = mine.exactly((op.origin, op.seq))\n",
        "        place = op.origin, op.seq\n")),
    of("carried operations do not name their start", SAME_COUNTERS,
       (f"{BIRTHS}:told_exactly", "op._replace(origin=exactly((op.origin, op.seq))[0])", "op")),
    of("a start is forgotten by a restart", "after a checkpoint",
       (f"{LIVES}:Lives.recover", "            state = yield from decoding(snapshot.data)\n",
        "            state = yield from decoding(snapshot.data)\n            state.starts = {}\n")),
    of("who has listened to it is not told", "one who lags behind is misled",
       (f"{LINEAGE}:Lineages._judge", "elif found is not None and found.behind and name != said.source:",
        "elif False:")),
    of("nobody tells it what it had delivered", 230,
       (f"{LINEAGE}:Lineages.about", "        yours = ended | self._peers.said(target) if target else {}\n",
        "        yours = {}\n")),
    of("nobody tells it of those who are past", 290,
       (f"{LINEAGE}:Lineages.about", "        yours = ended | self._peers", "        yours = self._peers")),
    of("one that is past is not told that it was put back", 172,
       (f"{LINEAGE}:Lineages.about", "if process_of(name) == process and name in ledger.past}",
        "if name in ()}")),
    of("operations of one that is past are known", "a number that was used",
       (f"{BIRTHS}:_unknown", "        told = start and (member not in past or theirs.knows(member))",
        "        told = start and member not in past")),
    of("a newcomer is not believed", "two are put back",
       (f"{LINEAGE}:Lineages._judge", "            if not self._is_proven(said):\n",
        "            if True:\n")),
    of("a state of one that was put back is taken", "it hears of it late",
       (f"{INSTALLING}:Installing._steps", "if old is not None and is_outdated(state, attempt.bound, old):",
        "if False:")),
    of("it goes on as whom it was", "fewer own messages than others have",
       (f"{NODE}:GroupNode._afterwards", "        if member.lineages.rollback is not None:\n"
        "            self._begin_again(member, member.lineages.rollback, now)\n            return\n",
        "")),
    of("operations of one of whom nothing is known do not name their start",
       "both timelines come to one who knows neither",
       (f"{CARRYING}:Carrying.due", "        found = [Carried(part)",
        "        starts = ledger.timelines.starts\n"
        "        ready = [op if op.dot[0] in starts else op._replace(origin=op.dot[0]) for op in ready]\n"
        "        found = [Carried(part)")),
    of("what was stable where it was alone is not brought", "it is alone",
       (f"{BIRTHS}:_unknown", "in all_operations(old.ledger, old.operations, forgetful)",
        "in all_operations(old.ledger, old.operations)")),
    of("who has more of one that is past is not told", "it has let one in that it does not remember",
       (f"{NOTICES}:Notices.is_due", " or (not view.knows(source) and _has_more(member, receipt))", "")),
    of("an operation waits for one that runs and does not have it", "long 7020587",
       (f"{CARRYING}:Carrying._may_go", "        if self.disowns((operation.origin, operation.seq)):\n",
        "        if False:\n")),
    of("one that it does not know cannot tell it which numbers it has used", "long 7022391",
       (f"{LINEAGE}:Lineages.used", "in self._view.view or self._is_proven(lineage) else 0",
        "in self._view.view else 0")),
    of("one that is another by now cannot tell it", "long 7025905",
       (f"{LINEAGE}:Lineages._is_proven",
        "        if any(process_of(name) == process for name in self._view.named()):\n",
        "        if False:\n")),
    of("what was carried stands for all before it", "long 7020210",
       (f"{TIMELINES}:Timelines.reach", "self.branches.get(timeline(member, start), 0) if whole else 0",
        "self.branches.get(timeline(member, start), 0)"),
       (f"{TIMELINES}:Timelines.reach", "or ALL) if whole else end)",
        "or ALL) if whole else max(end, branch))")),
]  # fmt: skip

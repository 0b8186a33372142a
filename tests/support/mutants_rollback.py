"""Bugs planted into what members do when a process was put back to an earlier state."""

from support.mutants_groups import BIRTHS, LIVES, MEMBER, NODE, GroupMutant, of

LINEAGE = "thence.replica.group_lineage"
LEDGER = "thence.replica.group_ledger"
TIMELINES = "thence.members.timelines"

SAME_COUNTERS = "other messages under the same counters"

MUTANTS: list[GroupMutant] = [
    of("starts are not compared", SAME_COUNTERS,
       (LINEAGE, "found = fork(own, count, said.starts[name], theirs)", "found = None")),
    of("messages do not name their start", SAME_COUNTERS,
       (MEMBER, "            payload = started(self._start, payload)\n", "            pass\n")),
    of("two operations of one counter are one", SAME_COUNTERS,
       (BIRTHS, "        place = mine.exactly((op.origin, op.seq))\n",
        "        place = op.origin, op.seq\n")),
    of("carried operations do not name their start", SAME_COUNTERS,
       (BIRTHS, "op._replace(origin=exactly((op.origin, op.seq))[0])", "op")),
    of("a start is forgotten by a restart", "after a checkpoint",
       (LIVES, "            state = decode_state(snapshot.data)\n",
        "            state = decode_state(snapshot.data)\n            state.starts = {}\n")),
    of("who has listened to it is not told", "one who lags behind is misled",
       (LINEAGE, "elif found is not None and found.behind and name != said.source:", "elif False:")),
    of("nobody tells it what it had delivered", 191,
       (LINEAGE, "        yours = ended | self._peers.said(target) if target else {}\n",
        "        yours = {}\n")),
    of("nobody tells it of those who are past", 290,
       (LINEAGE, "        yours = ended | self._peers", "        yours = self._peers")),
    of("one that is past is not told that it was put back", 172,
       (LINEAGE, "if process_of(name) == process and name in ledger.past}", "if name in ()}")),
    of("operations of one that is past are known", "a number that was used",
       (BIRTHS, "        told = start and (member in theirs.starts or member not in past)",
        "        told = start and member not in past")),
    of("a newcomer is not believed", "two are put back",
       (LINEAGE, "            if not mine.get(ledger.me) or", "            if True or")),
    of("a state of one that was put back is taken", "it hears of it late",
       (NODE, "if old is not None and is_outdated(state, attempt.bound, old):", "if False:")),
    of("it goes on as whom it was", "fewer own messages than others have",
       (NODE, "        if member.lineages.rollback is not None:\n"
        "            self._begin_again(member, member.lineages.rollback, now)\n            return\n", "")),
]  # fmt: skip

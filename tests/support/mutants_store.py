"""Bugs planted into the data types and the key space: random histories must find each, judged by the
specification (`store_model`)."""

from dataclasses import dataclass

from support.mutants import Edit

CELL = "thence.crdt.cell"
CELLS = "thence.crdt.cells"
SETS = "thence.crdt.sets"
DEADLINE = "thence.crdt.deadline"
MARK = "thence.crdt.mark"
SPACE = "thence.store.space"
SLOTS = "thence.store.slots"
STATE = "thence.store.state"
SNAPSHOT = "thence.store.snapshot"
SCAN = "thence.store.scan"


@dataclass(frozen=True, slots=True)
class StoreMutant:
    name: str
    edits: tuple[Edit, ...]


def of(name: str, *edits: Edit) -> StoreMutant:
    return StoreMutant(name, edits)


MUTANTS = [
    of(
        "updates fold out of order",
        (
            f"{CELL}:Cell.strip",
            "            if not mark.stable:\n                break\n",
            "            if not mark.stable:\n                continue\n",
        ),
        (
            f"{CELL}:Cell.strip",
            "del self.updates[:done]",
            "self.updates = [one for one in self.updates if not one[1].stable]",
        ),
    ),
    of(
        "updates fold while an assignment is not stable",
        (f"{CELL}:Cell.strip", "                return False\n", "                pass\n"),
    ),
    of(
        "a losing candidate that is stable stays the base",
        (
            f"{CELL}:Cell.strip",
            "best = max(self.candidates, key=_stamp)",
            "best = min(self.candidates, key=_stamp)",
        ),
    ),
    of(
        "of increments that become stable another one is folded",
        (f"{SLOTS}:Counted.settled", "del updates[at]", "del updates[-1]"),
    ),
    of(
        "increments are counted beside a deadline",
        (f"{SLOTS}:Database.count", "key in self.deadlines or not (", "not ("),
    ),
    of(
        "an integer with increments loses them when it becomes a slot",
        (
            f"{SLOTS}:Counted.cell",
            "for mark, index, by in self.updates:",
            "for mark, index, by in self.updates[1:]:",
        ),
    ),
    of("the least stamp wins", (f"{CELL}:Cell.restart", "max(self.candidates", "min(self.candidates")),
    of(
        "an assignment leaves updates that it saw",
        (f"{CELL}:Cell.reset", "        if self.updates:\n", "        if False:\n"),
    ),
    of("a reset leaves the base", (f"{CELL}:Cell.reset", "        self.base = None\n", "        pass\n")),
    of(
        "a reset removes what it did not see",
        (
            f"{CELL}:Cell.reset",
            "for one in self.candidates if not one[1].precedes(mark)]",
            "for one in self.candidates if False]",
        ),
    ),
    of(
        "updates are applied as they come",
        (f"{CELL}:Cell.update", "if not updates or updates[-1][0] < stamp:", "if True:"),
    ),
    of(
        "an update that comes late is put one place too far",
        (f"{CELL}:Cell.update", "updates.insert(place,", "updates.insert(place + 1,"),
    ),
    of(
        "the value before a place is not forgotten when something comes before it",
        (f"{CELL}:Cell.update", "        if place < self._at:\n", "        if False:\n"),
    ),
    of(
        "a fold leaves the place where it was",
        (f"{CELL}:Cell.strip", "                self._at -= done\n", "                pass\n"),
    ),
    of(
        "a field that is removed keeps its concurrent value hidden",
        (
            f"{CELLS}:CellMap.remove",
            "            cell.reset(mark)\n",
            "            cell.reset(mark)\n            cell.candidates.clear()\n            cell.restart()\n",
        ),
    ),
    of(
        "a hash that is reset drops what is not stable",
        (f"{CELLS}:CellMap.reset", "if not cell.empty:", "if False:"),
    ),
    of(
        "a stripped field stays loose",
        (
            f"{CELLS}:CellMap.strip",
            "                self.data[field] = found.base\n                del self.loose[field]\n",
            "                self.data[field] = found.base\n",
        ),
    ),
    of(
        "a field that was assigned once and is stripped stays loose",
        (f"{CELLS}:CellMap.strip", "                    del self.loose[field]\n", ""),
    ),
    of(
        "a field's assignment replaces one that it did not see",
        (f"{CELLS}:CellMap.assign", " and not found.mark.precedes(mark)", " and False"),
    ),
    of(
        "a field's assignment is stripped before it is stable",
        (f"{CELLS}:CellMap.strip", "                if found.mark.stable:\n", "                if True:\n"),
    ),
    of(
        "a reset of a hash takes assignments that it did not see",
        (f"{CELLS}:CellMap.reset", " and found.mark.precedes(mark)", ""),
    ),
    of(
        "a remove takes adds that it did not see",
        (
            f"{SETS}:AddWinsSet.remove",
            "if not one.precedes(mark)] if adds else []",
            "if False] if adds else []",
        ),
    ),
    of(
        "a remove leaves adds that it saw",
        (
            f"{SETS}:AddWinsSet.remove",
            "if not one.precedes(mark)] if adds else []",
            "if True] if adds else []",
        ),
    ),
    of(
        "one stable add strips them all",
        (
            f"{SETS}:AddWinsSet.strip",
            "left := [one for one in adds or () if not one.stable]",
            "left := [] if adds and any(one.stable for one in adds) else adds",
        ),
    ),
    of(
        "an add that is alone is stable at once",
        (f"{SETS}:AddWinsSet.strip", "len(adds) == 1 and adds[0].stable", "len(adds) == 1"),
    ),
    of(
        "of an operation with one part the second counts",
        (f"{SPACE}:Space.apply", "self._apply(mark, 0, parts[0])", "self._apply(mark, 1, parts[0])"),
    ),
    of(
        "a set that is reset drops concurrent adds",
        (f"{SETS}:AddWinsSet.reset", "if adds and (live :=", "if False and (live :="),
    ),
    of(
        "where removes win, an add shows at once",
        (
            f"{SETS}:RemoveWinsSet.add",
            "hidden = tuple([one for one in removes if not one.precedes(mark)])",
            "hidden = ()",
        ),
    ),
    of(
        "where removes win, a remove is forgotten at once",
        (
            f"{SETS}:RemoveWinsSet.remove",
            "self.keep(element, [*left, mark], kept)",
            "self.keep(element, left, kept)",
        ),
    ),
    of(
        "where removes win, a stable remove goes although it hides something",
        (
            f"{SETS}:RemoveWinsSet.strip",
            "if not one.stable or any(one in hidden for _, hidden in adds)]",
            "if not one.stable]",
        ),
    ),
    of(
        "where removes win, a reap removes removes",
        (f"{SETS}:RemoveWinsSet.reset", "left = removes if keeps_removes else", "left ="),
    ),
    of(
        "where removes win, a reset leaves adds that it saw",
        (
            f"{SETS}:RemoveWinsSet.reset",
            "                if not one.precedes(mark)\n",
            "                if True\n",
        ),
    ),
    of(
        "a stable mark is asked for its tag",
        (
            f"{MARK}:Mark.precedes",
            "        if self.stable or seen is None",
            "        if self.stable:\n            return False\n        if seen is None",
        ),
    ),
    of(
        "parts of one operation do not follow each other",
        (f"{MARK}:Mark.precedes", " or self is other:", ":"),
    ),
    of(
        "operations of one message do not follow each other",
        (f"{MARK}:Mark.precedes", "        if self.name == other.name and", "        if False and"),
    ),
    of("the shortest deadline holds", (f"{DEADLINE}:Deadline.value", "max(", "min(")),
    of(
        "a reset leaves the deadline",
        (f"{SPACE}:Space._reset", "database.statements(key).cover(mark)", "pass"),
    ),
    of(
        "a covered statement goes at once",
        (
            f"{DEADLINE}:Deadline.cover",
            "                self.covered.append(one)\n",
            "                pass\n",
        ),
    ),
    of(
        "a statement goes when it is stable, not its cover",
        (
            f"{DEADLINE}:Deadline.strip",
            "any(cover.stable for cover in covered[0].covers)",
            "(covered[0].mark is None or covered[0].mark.stable)",
        ),
    ),
    of(
        "concurrent covers are not kept",
        (
            f"{DEADLINE}:Deadline.cover",
            "                    one.covers.append(mark)\n",
            "                    pass\n",
        ),
    ),
    of(
        "a reap goes by what is known here",
        (f"{SPACE}:Space._reap", ".seen_by(mark)", ".value()"),
    ),
    of(
        "a reap kills what it did not see of a key",
        (
            f"{SPACE}:Space._reap",
            "            self._reset(mark, database, key, True)\n",
            "            self._reset(mark, database, key, True)\n            database.keys.pop(key, None)\n",
        ),
    ),
    of(
        "late updates outlive the key that they were made under",
        (f"{SPACE}:Space._apply", "if bound and any(", "if False and any("),
    ),
    of("updates that were here outlive the reap", (f"{SPACE}:Space._reap", "0 < part[4] <= upto", "False")),
    of("reaps are remembered for ever", (f"{SPACE}:Space.stabilise", "if one[1] is not mark]", "]")),
    of("reaps are not remembered", (f"{SPACE}:Space._reap", "        self.reaps.append((upto, mark))\n", "")),
    of(
        "what leaves the heap is forgotten",
        (f"{SPACE}:Space._reap", "            self.lingering[number, key] = None\n", "            pass\n"),
    ),
    of("fresh is forgotten", (f"{SPACE}:Space._apply", "        if fresh:\n", "        if False:\n")),
    of("a SET leaves other kinds", (f"{SPACE}:Space._assign", "if not slot.plain:", "if False:")),
    of(
        "a SET states nothing",
        (
            f"{SPACE}:Space._apply",
            "            self._state(mark, number, key, part[6])\n",
            "            pass\n",
        ),
    ),
    of(
        "a SET replaces one that it did not see",
        (f"{SLOTS}:Database.assign", "or not found.mark.precedes(mark)", ""),
    ),
    of(
        "a SET over another forgets that the key did not expire before",
        (f"{SLOTS}:Database.assign", "            found.before.append(found.mark)\n", ""),
    ),
    of(
        "a SET over a deadline states nothing",
        (f"{SLOTS}:Database.assign", "        if key in self.deadlines:\n", "        if False:\n"),
    ),
    of(
        "what is said at length of a SET lacks its statement",
        (
            f"{SLOTS}:Database.slot",
            "                statements.state(mark, NEVER)\n",
            "                pass\n",
        ),
    ),
    of(
        "a SET that is stable takes the next one with it",
        (f"{SLOTS}:Database.settled", "            if found.mark is mark:\n", "            if True:\n"),
    ),
    of(
        "a flush drops what it did not see",
        (
            f"{SPACE}:Space._flush",
            "                    if not slot.empty:\n",
            "                    if False:\n",
        ),
    ),
    of(
        "a flush leaves deadlines",
        (f"{SPACE}:Space._flush", "database.statements(key).cover(mark)", "pass"),
    ),
    of(
        "an operation is said to have seen everything",
        (f"{MARK}:Mark.precedes", "else self.tag.before(seen)", "else True"),
    ),
    of(
        "an operation is said to have seen all that came with a state",
        (f"{MARK}:Mark.precedes", "return seen.saw(self.name, self.seq) if", "return True if"),
    ),
    of(
        "an operation is said to have seen nothing that came with a state",
        (f"{MARK}:Mark.precedes", "return seen.saw(self.name, self.seq) if", "return False if"),
    ),
    of(
        "a clock does not follow others'",
        (
            f"{STATE}:StoreState.deliver_run",
            "                self.time = time\n",
            "                pass\n",
        ),
    ),
    of(
        "a state forgets updates",
        (
            f"{SNAPSHOT}:_load_cell",
            "tuple(found)) for at, index, found in value[2]]",
            "tuple(found)) for at, index, found in value[2][:1]]",
        ),
    ),
    of(
        "a state forgets who covered",
        (f"{SNAPSHOT}:_load_deadline", "[marks[each] for each in covers]", "[]"),
    ),
    of(
        "a state forgets what is stable in it",
        (f"{SNAPSHOT}:Marks.__getitem__", "            mark.stable = True\n", "            pass\n"),
    ),
    of(
        "a key that comes while others are listed is counted twice",
        (f"{SCAN}:ScanIndex._put", "if key not in bucket:", "if True:"),
    ),
    of(
        "buckets without keys are one",
        (f"{SCAN}:ScanIndex._put", "if bucket is _EMPTY:", "if False:"),
    ),
    of(
        "a key that went while others are listed is scanned",
        (f"{SCAN}:ScanIndex._listed", "if key in keys:", "if True:"),
    ),
    of(
        "a new key waits for the next index",
        (f"{SCAN}:ScanIndex.add", "            self._put(key)\n", "            pass\n"),
    ),
    of(
        "a key that goes stays in the index",
        (f"{SCAN}:ScanIndex.remove", "                del bucket[key]\n", "                pass\n"),
    ),
    of(
        "a scan begins before all keys are listed",
        (f"{SCAN}:ScanIndex.page", "            return max(cursor, 1), []\n", "            pass\n"),
    ),
    of(
        "a cursor of a replica with other buckets skips the rest of a bucket",
        (
            f"{SCAN}:ScanIndex.page",
            "found += [key for key in buckets[at] if stable_hash(key) >= cursor]",
            "pass",
        ),
    ),
    of(
        "a cursor is a bucket's number",
        (f"{SCAN}:ScanIndex.page", "return (at << shift if", "return (at if"),
    ),
    of(
        "all keys are listed in one call",
        (
            f"{SCAN}:ScanIndex.page",
            "self._listed(keys, max(count, WORK))",
            "self._listed(keys, len(keys) + 1)",
        ),
    ),
    of(
        "an index outlives a flush",
        (
            f"{SCAN}:ScanIndex.clear",
            "self._buckets, self._left, self._spent, self._count = [], [], [], 0",
            "self._left, self._spent, self._count = [], [], 0",
        ),
    ),
]

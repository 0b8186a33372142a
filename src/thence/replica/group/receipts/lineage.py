"""Whether what a member has of each incarnation is what the others have: rule 31 of
docs/protocols/membership.md.

Counters alone do not tell. After a rollback (its data folder was put back to an earlier state) a process uses
counters twice, and a member that has the first message of a counter takes the second for the same. So over
each session link both ends say first under which starts the messages were sent that they have
(`members.timelines`), and again before anything that follows from another start. Two members that have gone
on from different timelines of one incarnation do not listen to each other; the one whose timeline began again
from an earlier state begins anew. So does, in any case, the process that was put back.
"""

from collections.abc import Callable
from typing import NamedTuple

from thence.core.groups import ALL, Lineage, Place, Post, Receipt, number_of, process_of, told_apart
from thence.members.group import GroupView
from thence.members.timelines import fork, is_in
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.receipts.peers import Peers


class Rollback(NamedTuple):
    """Why a member cannot go on as the incarnation that it is."""

    origin: str
    """The incarnation whose messages differ: itself, or another that was put back."""
    agreed: int
    """They are the same up to this counter."""
    theirs: int
    """How many of them the source has."""
    source: str
    highest: int
    """Of the own process, the highest number that the other has heard of."""


class Lineages:
    __slots__ = (
        "_all_told", "_counts", "_drop", "_heard", "_ledger", "_links", "_peers", "_posts", "_start", "_told",
        "_view", "odd", "rollback",
    )  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        view: GroupView,
        peers: Peers,
        links: GroupLinks,
        posts: list[Post],
        drop: Callable[[], None],
        start: int,
    ) -> None:
        """`drop`: what came and was not delivered may follow from something else than what is here. `start`:
        that of the process."""
        self._start = start
        self._drop = drop
        self._ledger = ledger
        self._view = view
        self._peers = peers
        self._links = links
        self._posts = posts
        self._all_told = 0
        """Which version all have that have a link."""
        self._told: dict[str, int] = {}
        """Per linked process: which version of the own lineage it has."""
        self._heard: dict[str, Lineage] = {}
        self._counts: dict[str, dict[str, int]] = {}
        """What was counted since, in the last receipt."""
        self.odd: set[str] = set()
        """Whose lineage is not the own one: it may come to differ with the next message."""
        self.rollback: Rollback | None = None
        """Set when this member cannot go on."""

    def link(self, process: str) -> None:
        """A link came up, or broke."""
        self._told.pop(process, None)
        self._all_told = 0
        self._heard.pop(process, None)
        self._counts.pop(process, None)
        self.odd.discard(process)
        self._links.barred.discard(process)

    def first_word(self, source: str) -> None:
        """Another incarnation runs at the other end of a link."""
        process = process_of(source)
        said = self._heard.get(process)
        if said is not None and said.source != source:
            self.link(process)
        self._told.pop(process, None)
        self._all_told = 0

    def about(self, process: str, whole: bool = False) -> Lineage:
        """What a process is told; `whole`: also of all that are past and not forgotten."""
        ledger, view = self._ledger, self._view
        starts, ends = ledger.timelines.starts, ledger.timelines.branches
        # It may have been put back to an incarnation that is past.
        told = [name for name in starts if whole or name not in ledger.past or process_of(name) == process]
        counts = {name: self._count(name) for name in told}
        there = [name for name in view.view if process_of(name) == process]
        target, yours = view.newest(process), dict[str, int]()
        if there:
            target = max(there, key=number_of)
            # Every member has all messages of an incarnation that is past.
            ended = {name: ends[name] for name in starts if name in ledger.past}
            yours = ended | self._peers.said(target)
        elif target in view.suspects:
            yours = ledger.told_had()
        return Lineage(ledger.me, counts, {name: starts[name] for name in counts}, target, yours)

    def tell(self) -> None:
        """Before anything else of the step leaves: to all that have a link and not the newest, if one has
        heard of the other. They may take this one for a member though it does not know them."""
        version, told = self._ledger.timelines.version, self._told
        if version == self._all_told:  # in every step, and mostly it is
            return
        due = [one for one in self._links.linked if told.get(one) != version] if version else []
        if not due:
            self._all_told = version
        else:
            known = {process_of(name) for name in self._view.named()} | self._heard.keys()
            due = [process for process in due if process in known]
            self._posts[:0] = [(process, self.about(process)) for process in due]
            self._told.update(dict.fromkeys(due, version))

    def heard(self, lineage: Lineage, highest: int) -> None:
        process = process_of(lineage.source)
        self._heard[process] = lineage
        self._counts.pop(process, None)
        self._links.barred.discard(process)
        self._judge(process)
        me = self._ledger.me
        if (used := self.used(lineage)) > highest:
            # A number that this disk knows nothing of was a member's: what was written since is lost.
            sent = self._ledger.sent
            found = self._found(me, sent, sent, lineage.source)
            self.rollback = self.rollback or found._replace(highest=max(found.highest, used))

    def used(self, lineage: Lineage) -> int:
        """The number of the own process's newest incarnation, as a member knows it, or one that proves that
        it was with this one; 0: nothing is known. What others say proves nothing."""
        target = lineage.target
        if process_of(target) != process_of(self._ledger.me):
            return 0
        return number_of(target) if lineage.source in self._view.view or self._is_proven(lineage) else 0

    def _is_proven(self, lineage: Lineage) -> bool:
        """One that the disk that was put back does not know: its process was a member under another
        name, or the number of a start is its proof. That start is an earlier one: no folder is put back
        under a process that runs."""
        me, mine, process = self._ledger.me, self._ledger.timelines.starts, process_of(lineage.source)
        if any(process_of(name) == process for name in self._view.named()):
            return True
        first = mine.get(me, ())[:1]
        return bool(first) and first[0][1] != self._start and lineage.starts.get(me, ())[:1] == first

    def counted(self, receipt: Receipt, passed: bool) -> bool:
        """A receipt came: does what it says count? A member has no more of this one than was sent, unless
        some of that was forgotten. What others than members say proves nothing. `passed`: by another than its
        source, so that it may be here before the lineage that it follows from."""
        has, sent, me = receipt.counts.get(self._ledger.me, 0), self._ledger.sent, self._ledger.me
        if has > sent:
            if has < ALL and receipt.source in self._view.view:
                self.rollback = self.rollback or self._found(me, sent, has, receipt.source)
            return False
        process = process_of(receipt.source)
        said = self._heard.get(process)
        if said is not None and said.source == receipt.source and not passed:
            self._counts[process] = receipt.counts
            if process in self.odd:
                self._judge(process)
        return process not in self._links.barred

    def judge(self) -> None:
        """What is known has changed, here or elsewhere."""
        for process in sorted(self._heard):
            self._judge(process)

    def _judge(self, process: str) -> None:
        said, view, ledger = self._heard[process], self._view, self._ledger
        mine = ledger.timelines.starts
        if said.source not in view.view and said.source not in view.departing:
            if not self._is_proven(said):
                return
            said = said._replace(starts={me: starts for me, starts in said.starts.items() if me == ledger.me})
        odd = barred = False
        newer = self._counts.get(process, {})
        for name in sorted(said.starts.keys() & (mine.keys() | {ledger.me})):
            count, theirs = ledger.count(name), max(said.counts.get(name, 0), newer.get(name, 0))
            own = mine.get(name, ())
            if count == ALL or theirs == ALL or (own == said.starts[name] and name != ledger.me):
                continue
            odd = odd or own != said.starts[name]
            found = fork(own, count, said.starts[name], theirs)
            if name == ledger.me and (found is not None or theirs > count):
                agreed = found.agreed if found else count
                self.rollback = self.rollback or self._found(name, agreed, theirs, said.source)
            elif found is not None and found.behind and name != said.source:
                self.rollback = self.rollback or self._found(name, found.agreed, theirs, said.source)
            barred = barred or found is not None
        if said.target == ledger.me and self._has_forgotten(said.yours):
            theirs = said.counts.get(ledger.me, 0)
            self.rollback = self.rollback or self._found(ledger.me, ledger.sent, theirs, said.source)
        (self.odd.add if odd else self.odd.discard)(process)
        if barred and process not in self._links.barred:
            self._links.bar(process)
            self._drop()

    def _has_forgotten(self, told: dict[str, int]) -> bool:
        """Others know that this one had delivered more than it has."""
        count, ends = self._ledger.count, self._ledger.timelines.branches
        return any(max(count(name), ends.get(name, 0)) < had < ALL for name, had in told.items())

    def _found(self, name: str, agreed: int, theirs: int, source: str) -> Rollback:
        me, said = process_of(self._ledger.me), self._heard.get(process_of(source))
        names = [one for one in said.starts if process_of(one) == me] if said else []
        highest = max(map(number_of, names), default=0)
        return Rollback(name, agreed, theirs, source, highest)

    def disowns(self, place: Place) -> bool:
        """Is this an operation of an incarnation that is at the other end of a link, and that does not have
        it itself? Then its disk was put back to an earlier state, or its number was used twice, and what
        comes from it is another timeline."""
        (origin, start), seq = told_apart(place[0]), place[1]
        said = self._heard.get(process_of(origin))
        if not start or said is None or said.source != origin:
            return False
        starts, newer = said.starts.get(origin, ()), self._counts.get(process_of(origin), {})
        count = max(said.counts.get(origin, 0), newer.get(origin, 0))
        return not is_in(starts, count, start, seq)

    def _count(self, name: str) -> int:
        """Also of one that is past."""
        count = self._ledger.count(name)
        return self._ledger.timelines.branches[name] if count == ALL else count

    def goes_before(self, source: str) -> bool | None:
        """Rule 21: of this member and one that goes on without it, which has listened to one that was put
        back, and the other not? It is the other; it is this one (false); neither, or both (none)."""
        said, starts = self._heard.get(process_of(source)), self._ledger.timelines.starts
        if said is None or said.source != source:
            return None
        names = sorted(said.starts.keys() & starts.keys())
        forks = [fork(starts[x], self._count(x), said.starts[x], said.counts.get(x, 0)) for x in names]
        behind = {found.behind for found in forks if found is not None}
        return not behind.pop() if len(behind) == 1 else None

    def is_behind(self, process: str) -> bool:
        """Can the member of this process, as far as it has said, not go on either?"""
        said, ledger = self._heard.get(process), self._ledger
        if said is None:
            return False
        for name, own in ledger.timelines.starts.items():
            count, theirs = ledger.count(name), said.counts.get(name, 0)
            found = fork(said.starts.get(name, ()), theirs, own, count) if count < ALL else None
            if name == said.source and (found is not None or theirs < count < ALL):
                return True
            if found is not None and found.behind and name != ledger.me:
                return True
        return False

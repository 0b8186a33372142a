"""What waits for a program on an edge tree: little of it in memory, all of it in order."""

from collections.abc import Iterator
from random import Random
from typing import cast

import pytest

from thence.replica.edge_inbox import EdgeInbox
from thence.replica.edge_journal import EdgeFacts, EdgeJournal, Logged, facts_of
from thence.spread.edge_book import MESSAGE, EdgeBook, EdgeEntry, EdgeHost

FACTS = facts_of(EdgeBook("a", True, cast(EdgeHost, None)))


class Journal:
    """A log in memory: what is committed can be read."""

    def __init__(self) -> None:
        self.written: list[tuple[int, Logged | EdgeFacts]] = []
        self.committed = 0

    def records(self, after: int) -> Iterator[tuple[int, Logged | EdgeFacts]]:
        return iter([one for one in self.written[: self.committed] if one[0] > after])


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("seed", range(20))
def test_messages_are_taken_in_order_whatever_is_in_memory(most: int, seed: int) -> None:
    """Steps of some records, of which some are facts, or of groups that the node is no member of; and the
    program takes some between steps, or all that waits in the middle of one."""
    random, journal = Random(seed), Journal()
    inbox = EdgeInbox(cast(EdgeJournal, journal), most, lambda record: record.member)
    position = ordinal = 0
    waits: list[tuple[int, int]] = []

    def take(most: int) -> None:
        while most > 0 and (one := inbox.next()) is not None:
            assert (one.position, one.ordinal) == waits.pop(0), "order"
            most -= 1

    for _ in range(300):
        for _ in range(random.randrange(5)):
            position += random.randint(1, 3)
            if random.random() < 0.2:
                journal.written.append((position, FACTS))
                continue
            ordinal += 1
            entry = EdgeEntry(MESSAGE, "b", "g", ordinal, 1, b"")
            member = random.random() < 0.8
            journal.written.append((position, Logged(entry, member, joining=False)))
            if member:
                waits.append((position, ordinal))
                inbox.put(position, ordinal, entry, logged=False)
            if random.random() < 0.05:
                take(len(waits))
        journal.committed = len(journal.written)
        inbox.committed()
        assert inbox.waiting == len(waits)
        assert len(inbox._first) <= most
        assert not inbox._fresh
        take(random.randrange(6))
    take(len(waits))
    assert (waits, inbox.waiting, inbox.next()) == ([], 0, None), "lost"

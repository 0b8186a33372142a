"""Much work on an event loop: a bounded part of it in each turn."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from thence.replica.group.ledger.backlog import Allowance

T = TypeVar("T")


async def in_turns(work: Generator[int, None, T], most: int) -> T:
    """What becomes of something that yields what each of its items has cost, in bytes. Others have a turn
    after so many items; a large one counts once more for each kilobyte."""
    while (done := Allowance(most).spend_on(work)) is None:
        await asyncio.sleep(0)
    return done[0]

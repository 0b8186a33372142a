"""Turns, and events that wait: bounded, in order, and nothing is left behind by one that gives up."""

import asyncio
from contextlib import suppress

from thence.runtime.happened import Happened
from thence.runtime.waiting import Turns


def test_so_many_have_their_turn_at_a_time_in_the_order_in_which_they_came() -> None:
    async def story() -> None:
        turns, inside, most, done = Turns(3), 0, 0, list[int]()

        async def visit(number: int) -> None:
            nonlocal inside, most
            async with turns:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1
                done.append(number)

        await asyncio.gather(*[visit(number) for number in range(20)])
        assert most == 3
        assert done == list(range(20))
        await visit(20)

    asyncio.run(story())


def test_a_turn_of_one_that_is_cancelled_goes_to_the_next() -> None:
    """Whether it was waiting or had just been told that it is its turn."""

    async def story() -> None:
        turns, done = Turns(1), list[str]()

        async def visit(name: str) -> None:
            async with turns:
                done.append(name)

        async with turns:
            waiting = {name: asyncio.ensure_future(visit(name)) for name in ("waits", "told", "next")}
            await asyncio.sleep(0)
            waiting["waits"].cancel()
        waiting["told"].cancel()  # it has not run since it was told
        for one in waiting.values():
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(one, 5)
        assert done == ["next"]
        await asyncio.wait_for(visit("later"), 5)

    asyncio.run(story())


def test_of_many_events_that_wait_the_last_of_each_key_remains_in_order() -> None:
    happened = Happened[str](6, lambda event: None if event.startswith("!") else event[0])
    for event in ("a1", "!one", "b1", "a2", "b2", "!two"):
        happened.append(event)
    assert len(happened) == 6, "there is room"
    happened.append("a3")
    assert [happened.next() for _ in range(len(happened))] == ["!one", "b2", "!two", "a3"]
    for number in range(10_000):
        happened.append(f"{'ab'[number % 2]}{number}")
        assert len(happened) <= 8
    assert [happened.next() for _ in range(len(happened))][-2:] == ["a9998", "b9999"]


def test_events_that_come_otherwise_are_dropped_and_no_others() -> None:
    happened = Happened[str](6, lambda _: None)
    happened.extend(["one", "!two", "three", "!four"])
    happened.drop(lambda event: event.startswith("!"))
    assert [happened.next() for _ in range(len(happened))] == ["one", "three"]

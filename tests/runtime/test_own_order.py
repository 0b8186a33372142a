"""A program's own order over an eviction: what it says after its return waits behind what it said before."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree
from support.open_nodes import run, until

from thence import UsageError
from thence.replica.group.settings import GroupSettings
from thence.replica.send_queue import SendQueue
from thence.runtime.application import OpenNode


async def in_debt(group: Changing, stack: AsyncExitStack, books: dict[str, Journal], **options: object):  # type: ignore[no-untyped-def]
    """a and c, as c~2, which owes what it said while it was cut off: b, which must say so too, is down."""
    a = await stack.enter_async_context(group.open("a", application=books["a"]))
    b = await stack.enter_async_context(group.open("b", join="a", application=books["b"]))
    c = await stack.enter_async_context(group.open("c", join="ab", application=books["c"], **options))
    await agree(a, b, c)
    for peer in "ab":
        c._host.fault("cut", peer, 0)
    for number in range(3):
        await c.broadcast(b"before %d" % number)
    await b.__aexit__(None, None, None)
    assert a.evict("c") == "c"
    c._host.fault("mend", None, 0)
    await until(lambda: c.me == "c~2")
    return a, c


def told(node: OpenNode) -> tuple[int, int, list[str]]:
    group = node.status().group
    assert group is not None
    return group.orphans, group.waiting_broadcasts, group.unsettled


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def test_what_a_program_says_after_its_return_comes_after_what_it_said_before(group: Changing) -> None:
    async def story() -> None:
        books = {name: Journal() for name in "abc"}
        async with AsyncExitStack() as stack:
            a, c = await in_debt(group, stack, books)
            later = [asyncio.ensure_future(c.broadcast(b"after %d" % number)) for number in range(3)]
            await until(lambda: told(c)[1] == 3)
            assert told(c) == (3, 3, ["c"])
            assert not any(call.done() for call in later)
            books["b"] = Journal()
            async with group.open("b", application=books["b"]) as b:
                await asyncio.gather(*later)
                await agree(a, b, c)
            assert told(c) == (0, 0, [])
            said = [f"{when} {number}" for when in ("before", "after") for number in range(3)]
            assert books["a"].lines == books["b"].lines == books["c"].lines == said

    run(story)


def test_the_wait_ends_with_an_error_that_says_so_and_nothing_was_sent(group: Changing) -> None:
    async def story() -> None:
        books = {name: Journal() for name in "abc"}
        limits = {"group.settle_timeout_us": 100_000, "group.backlog": 1}
        async with AsyncExitStack() as stack:
            a, c = await in_debt(group, stack, books, settings=limits)
            calls = [asyncio.ensure_future(c.broadcast(b"after %d" % number)) for number in range(2)]
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in done] == [UsageError, UsageError]
            assert str(done[0]).startswith("not sent: ")
            assert str(done[0]).endswith("the group has not yet settled what c sent last")
            assert "too many broadcasts wait" in str(done[1])
            async with group.open("b", application=Journal()) as b:
                await until(lambda: not told(c)[0])
                await c.broadcast(b"at last")
                await agree(a, b, c)
            assert books["a"].lines == [*[f"before {number}" for number in range(3)], "at last"]

    run(story)


def test_a_call_that_waits_is_refused_when_the_node_is_closed_and_not_sent_when_it_was_cancelled(
    group: Changing,
) -> None:
    async def story() -> None:
        books = {name: Journal() for name in "abc"}
        async with AsyncExitStack() as stack:
            a, c = await in_debt(group, stack, books)
            waits, cancelled = [asyncio.ensure_future(c.broadcast(payload)) for payload in (b"one", b"two")]
            await until(lambda: told(c)[1] == 2)
            cancelled.cancel()
            await c.__aexit__(None, None, None)
            with pytest.raises(UsageError, match="not sent: the node was closed"):
                await waits
            async with (
                group.open("b", application=Journal()) as b,
                group.open("c", application=Journal()) as c,
            ):
                await c.broadcast(b"three")
                await agree(a, b, c)
            assert books["a"].lines == [*[f"before {number}" for number in range(3)], "three"]

    run(story)


def test_a_backlog_is_bounded_in_number_bytes_and_time_and_keeps_the_order() -> None:
    backlog = SendQueue[str](GroupSettings(backlog=3, backlog_bytes=10, settle_timeout_us=100))
    assert backlog.add([b"12345"], "a", 0)
    assert backlog.add([b"1", b"2"], "b", 10)
    assert not backlog.add([b"1234"], "too large", 20)
    assert backlog.add([b"123"], "c", 20)
    assert not backlog.add([b""], "too many", 20)
    assert backlog.wake_at == 100
    assert backlog.overdue(99) == []
    assert backlog.overdue(100) == ["a"]
    assert backlog.take() == [([b"1", b"2"], "b"), ([b"123"], "c")]
    assert (len(backlog), backlog.waited, backlog.gave_up) == (0, 3, 3)
    assert backlog.add([b"1234567890"], "d", 200), "what was taken makes room"

"""Runs: what a program sends in one turn of the loop is one message, and comes as single operations."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.changing import Changing, agree
from support.open_nodes import delivered, run, stable, until

from thence import Delivered, Stable, Tag, UsageError
from thence.core.runs import RUN_BYTES, RUN_MAX
from thence.replica.positions import place_of
from thence.runtime.files import DiskFiles


class Batches:
    """Takes batches, and single operations where there is only one."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, list[bytes]]] = []
        self.tags: list[Tag] = []

    def apply(self, event: Delivered) -> None:
        assert event.tag is not None
        self.calls.append((event.origin, event.seq, [event.payload]))
        self.tags.append(event.tag)

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: Tag) -> None:
        assert tag.dot == (origin, first_seq + len(ops) - 1)
        self.calls.append((origin, first_seq, list(ops)))
        self.tags.append(tag)

    def stable(self, event: Stable) -> None:
        """Nothing."""

    def state(self) -> bytes:
        return b"\n".join([b" ".join([op for _, _, ops in self.calls for op in ops])])

    def install(self, state: bytes) -> None:
        self.calls = [("?", 0, [op]) for op in state.split()]

    @property
    def ops(self) -> list[bytes]:
        return [op for _, _, ops in self.calls for op in ops]


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def test_what_is_sent_in_one_turn_is_one_message_and_one_write(
    group: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        first, other = Batches(), Batches()
        async with (
            group.open("a", application=first) as a,
            group.open("b", join="a", application=other) as b,
        ):
            await agree(a, b)
            member, log = a._machine.member, a._machine.log  # type: ignore[attr-defined]
            assert log is not None
            before, writes, plain = member.ledger.delivered, list[bytes](), DiskFiles.write

            def counted(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
                if files is log.files and b"op" in data:
                    writes.append(bytes(data))
                plain(files, name, offset, data)

            monkeypatch.setattr(DiskFiles, "write", counted)
            dots = [a.broadcast_nowait(b"op%d" % number) for number in range(64)]
            await a.committed(dots[-1])
            assert member.ledger.delivered == before + 1, "messages"
            assert [data.count(b"op") for data in writes] == [64]
            assert [seq for _, seq in dots] == list(range(dots[0][1], dots[0][1] + 64))
            await b.delivered({"a": dots[-1][1]})
            assert other.calls[-1] == ("a", dots[0][1], [b"op%d" % number for number in range(64)])
            tags = [b.tag(*dot) for dot in dots]
            assert tags[3].before(tags[60])
            assert not tags[60].before(tags[3])
            assert not tags[3].concurrent(tags[4])
            reply = await b.broadcast(b"reply")
            assert all(tag.before(reply) for tag in tags)
            assert reply.saw(*dots[10])
            assert (a.status().sent, b.status().delivered) == (64, 64)

    run(story)


def test_calls_that_wait_are_one_message_too_and_readers_get_single_operations(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            events = b.events()
            tags = await asyncio.gather(*[a.broadcast(b"%d" % number) for number in range(40)])
            found = await delivered(events, 40)
            assert [event.payload for event in found] == [b"%d" % number for number in range(40)]
            assert [(event.origin, event.seq) for event in found] == [tag.dot for tag in tags]
            assert [event.position for event in found] == sorted({event.position for event in found})
            await stable(events, *tags[-1].dot)
            events.close()
            again = await delivered(b.events(after=found[19].position), 20)
            assert [event.payload for event in again] == [b"%d" % number for number in range(20, 40)]
            assert [event.position for event in again] == [event.position for event in found[20:]]

    run(story)


def test_a_restart_and_a_joiner_have_what_was_in_runs(group: Changing) -> None:
    async def story() -> None:
        first = Batches()
        async with group.open("a", application=first) as a:
            async with group.open("b", join="a", application=Batches()) as b:
                await agree(a, b)
            for turn in range(3):
                dots = [a.broadcast_nowait(b"%d.%d" % (turn, number)) for number in range(7)]
                await a.committed(dots[-1])
            ops = first.ops
            assert len(ops) == 21
            async with group.open("c", join="a", application=(late := Batches())) as c:
                assert late.ops == ops
                assert c.tag(*dots[2]).before(c.tag(*dots[4]))
        async with group.open("a", application=(again := Batches())) as a:
            assert again.ops == ops
            assert a.tag(*dots[2]).before(a.tag(*dots[4]))
            assert a.position >= place_of(1, 0)
            async with group.open("b", application=(back := Batches())):
                await until(lambda: back.ops == ops)

    run(story)


def test_there_is_room_for_so_many_and_then_it_is_waited_for(group: Changing) -> None:
    async def story() -> None:
        told: list[tuple[str, int, int]] = []
        async with group.open("a", settings={"application.broadcasts_max": 10}) as a:
            a.on_commit(lambda me, first, last: told.append((me, first, last)))
            dots = [a.broadcast_nowait(b"x") for _ in range(a.room)]
            assert (len(dots), a.room) == (10, 0)
            with pytest.raises(UsageError, match="10 operations wait for their answers"):
                a.broadcast_nowait(b"y")
            await a.until_room()
            assert a.room == 10
            assert told == [("a", dots[0][1], dots[-1][1])]
            await a.committed(dots[0])

    run(story)


def test_what_is_too_large_or_unknown_is_refused(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a:
            with pytest.raises(UsageError, match=r"too many without waiting: use broadcast\(\)"):
                a.broadcast_nowait(bytes(RUN_BYTES + 1))
            with pytest.raises(UsageError, match="a payload is bytes, not str"):
                a.broadcast_nowait("text")  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="a:999 was not sent by this node"):
                await a.committed(("a", 999))
            one = a.broadcast_nowait(b"one")
            tag = await a.broadcast(bytes(RUN_BYTES + 1))
            assert tag.seq == one[1] + 1
            many = [a.broadcast_nowait(b"") for _ in range(RUN_MAX + 5)]
            await a.committed(many[-1])
            assert a.tag(*many[0]).before(a.tag(*many[-1]))

    run(story)


def test_what_is_taken_in_a_turn_does_not_come_before_what_was_sent_in_it(group: Changing) -> None:
    """Tags stay exact: an operation follows from what its program had taken when it was asked for."""

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a", application=Batches()) as b:
            events = a.events()
            async with group.open("c", join="a"):
                await until(lambda: len(a.members) == len(b.members) == 3)
            theirs = await b.broadcast(b"theirs")  # c is away: nothing becomes stable
            await until(lambda: a._machine.waiting)
            mine = a.broadcast_nowait(b"mine")
            [event] = await delivered(events, 1)
            assert event.tag == theirs
            await a.committed(mine)
            assert a.tag(*mine).concurrent(event.tag)

    run(story)

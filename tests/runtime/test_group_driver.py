"""The driver of a changing group keeps its promises: commit, then trace, then packets and answers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.driven_group import Driven, Two, run, run_two

from thence.core.errors import InvariantError, PeerError, StorageError, UsageError
from thence.core.group_codec import decode, encode
from thence.core.groups import NOBODY_YET, JoinRequest, Piece, Place, Running, Sent
from thence.core.storage import DiskError
from thence.oplog.policy import Policy
from thence.runtime import checkpoints, trouble
from thence.runtime.files import DiskFiles
from thence.runtime.tracing import LiveTrace


def full(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
    raise DiskError("no space", file=name, definite=True, full=True)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A full disk is looked at often."""
    monkeypatch.setattr(trouble, "PROBE_EVERY_S", 0.001)
    return monkeypatch


def places(sent: list[Sent]) -> list[Place]:
    return [place for place, _ in sent]


async def well_again(driven: Driven) -> None:
    while driven.driver.trouble is not None:
        await asyncio.sleep(0.001)


def test_under_always_nothing_is_told_or_answered_before_it_is_synced(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        before = driven.rows
        asked = driven.driver.publish([b"one"])
        await driven.turn()
        assert driven.program.applied == [b"one"]
        assert not asked.done()
        assert driven.rows == before, "a trace must not know what the disk may forget"
        driven.syncer.go()
        assert places(await asked) == [("a", 1)]
        assert driven.rows > before

    run(tmp_path, "always", story)


def test_under_always_nothing_is_sent_before_it_is_synced(tmp_path: Path) -> None:
    async def story(two: Two) -> None:
        two.a.driver.publish([b"one"])
        await two.a.turn()
        assert not any(b"one" in packet for _, packet in two.a.outlet.left)
        while two.b.driver.node.waiting < 2:
            await two.carry()

    run_two(tmp_path, "always", story)


def test_under_the_weaker_policies_a_commit_is_enough(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        assert places(await driven.driver.publish([b"one", b"two"])) == [("a", 1), ("a", 2)]
        assert driven.driver.log is not None
        assert driven.driver.log.vector == (2,)

    run(tmp_path, "no", story)


def test_whatever_the_policy_nobody_is_let_in_before_that_is_synced(tmp_path: Path) -> None:
    """Or the process could forget whom it has let in."""

    def pieces(packets: Sequence[tuple[str, bytes]]) -> list[str]:
        return [to for to, packet in packets if isinstance(decode(packet), Piece)]

    async def story(two: Two) -> None:
        asks = JoinRequest("c", "a", NOBODY_YET, Running("c", "", "c", 1), 0, 0, "", 1)
        two.a.outlet.left.clear()
        two.a.driver.packets("c", [encode(asks)], two.a.now())
        await two.a.turn()
        assert two.a.syncer.asked == 1
        assert two.a.outlet.left == []
        later = two.a.driver.publish([b"later"])
        await two.a.turn()
        assert not later.done(), "what follows waits as well"
        two.a.syncer.go()
        await later
        assert pieces(two.a.outlet.left) == ["c"]

    run_two(tmp_path, "no", story)


def test_the_trace_knows_of_a_message_before_anybody_gets_it(tmp_path: Path) -> None:
    async def story(two: Two) -> None:
        known: list[int] = []

        def look(packets: Sequence[bytes]) -> None:
            if any(b"one" in packet for packet in packets):
                known.append(two.a.sends)

        two.a.outlet.on_send = look
        before = two.a.sends
        await two.a.driver.publish([b"one"])
        assert known == [before + 1]

    run_two(tmp_path, "no", story)


def test_a_sync_that_is_due_by_the_clock_is_asked_for(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        driven.syncer.go()
        await driven.turn()
        driven.tick_us = 400_000
        await driven.driver.publish([b"one"])
        while not driven.syncer.asked:
            await asyncio.sleep(0.001)

    run(tmp_path, "everysec", story)


def test_a_step_that_cannot_be_written_never_was_and_the_next_gets_its_dot(
    tmp_path: Path, hasty: pytest.MonkeyPatch
) -> None:
    write = DiskFiles.write

    async def story(driven: Driven) -> None:
        await driven.driver.publish([b"one"])
        rows = driven.rows
        hasty.setattr(DiskFiles, "write", full)
        with pytest.raises(StorageError, match=r"nothing is written at present: .*no space"):
            await driven.driver.publish([b"lost"])
        with pytest.raises(StorageError, match="nothing is written at present"):
            driven.driver.call(lambda node, now: node.leave(now))
        assert driven.driver.publish([b"refused at once"]).exception() is not None
        assert driven.driver.take().exception() is not None
        assert driven.outlet.anew
        assert driven.rows == rows
        hasty.setattr(DiskFiles, "write", write)
        await well_again(driven)
        assert driven.sends == 1
        assert places(await driven.driver.publish([b"two"])) == [("a", 2)]
        assert driven.program.applied == [b"one", b"two"]
        assert driven.sends == 2

    run(tmp_path, "no", story)


def test_what_was_asked_for_and_not_begun_when_the_disk_was_full_is_refused(
    tmp_path: Path, hasty: pytest.MonkeyPatch
) -> None:
    async def story(driven: Driven) -> None:
        write = DiskFiles.write
        await driven.driver.publish([b"one"])
        hasty.setattr(DiskFiles, "write", full)
        asked = driven.driver.publish([b"gathered"])
        with pytest.raises(StorageError, match="no space"):
            driven.driver.call(lambda node, now: node.broadcast(b"at once", now))
        assert asked.done(), "nobody would ever answer it"
        assert asked.exception() is not None
        hasty.setattr(DiskFiles, "write", write)
        await well_again(driven)

    run(tmp_path, "no", story)


def test_what_waits_for_its_sync_when_the_disk_is_full_is_answered_later_and_not_sent_over_old_links(
    tmp_path: Path, hasty: pytest.MonkeyPatch
) -> None:
    async def story(two: Two) -> None:
        a, write = two.a, DiskFiles.write
        asked = a.driver.publish([b"one"])
        await a.turn()
        hasty.setattr(DiskFiles, "write", full)
        with pytest.raises(StorageError, match="no space"):
            a.driver.call(lambda node, now: node.broadcast(b"lost", now))
        assert a.outlet.anew
        assert not asked.done(), "it is in the log, and may be on the disk"
        hasty.setattr(DiskFiles, "write", write)
        await well_again(a)
        while not asked.done():
            a.syncer.go()
            await asyncio.sleep(0.001)
        assert not any(b"one" in packet for _, packet in a.outlet.left)

    run_two(tmp_path, "always", story)


def test_rows_that_could_not_be_written_come_before_everything_else(
    tmp_path: Path, hasty: pytest.MonkeyPatch
) -> None:
    async def story(driven: Driven) -> None:
        write = LiveTrace.write

        def no_room(trace: LiveTrace, data: bytes) -> None:
            if data or trace.waiting:
                trace._rest += data
                raise DiskError("no space", file="trace", full=True)

        hasty.setattr(LiveTrace, "write", no_room)
        asked = driven.driver.publish([b"one"])
        await driven.turn()
        assert not asked.done(), "others would see what the trace does not know"
        hasty.setattr(LiveTrace, "write", write)
        assert places(await asked) == [("a", 1)]
        assert driven.sends == 1

    run(tmp_path, "no", story)


def test_the_log_forgets_nothing_of_which_the_trace_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", 1000)
    monkeypatch.setattr(checkpoints, "CHECKPOINT_EVERY_US", 1)

    async def story(driven: Driven) -> None:
        seen: list[int] = []
        driven.program.on_state = lambda: seen.append(driven.sends)
        driven.driver.publish([b"." * 2000])
        await driven.turn()
        assert seen == [1], "it was written down, and the trace knew"

    run(tmp_path, "always", story)


def test_after_a_failed_sync_or_a_bug_nothing_goes_on(tmp_path: Path) -> None:
    async def sync_fails(driven: Driven) -> None:
        asked, other = driven.driver.publish([b"one"]), driven.driver.take
        await driven.turn()
        driven.syncer.go(DiskError("the disk is gone", file="x"))
        await driven.turn()
        assert asked.done(), "nobody would ever answer it"
        with pytest.raises(StorageError, match="the disk is gone"):
            await asked
        with pytest.raises(StorageError, match="the disk is gone"):
            await other()
        assert "the disk is gone" in str(await driven.driver.broken)

    async def bug(driven: Driven) -> None:
        with pytest.raises(InvariantError, match="this cannot be"):
            await driven.driver.publish([b"a bug"])
        assert driven.driver.broken.done()
        assert isinstance(driven.driver.broken.result(), InvariantError)

    run(tmp_path / "sync", "always", sync_fails)
    run(tmp_path / "bug", "no", bug)


def test_what_came_before_garbage_counts_and_the_garbage_is_told(tmp_path: Path) -> None:
    async def story(two: Two) -> None:
        await two.a.driver.publish([b"one"])
        packets = [packet for _, packet in two.a.outlet.left]
        with pytest.raises(PeerError):
            two.b.driver.packets("a", [*packets, b"garbage"], two.b.now())
        assert two.b.driver.node.waiting == 2

    run_two(tmp_path, "no", story)


@pytest.mark.parametrize("sync", ["no", "always"])
def test_closing_writes_what_was_asked_for_and_says_whether_it_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Policy
) -> None:
    async def whole() -> None:
        well = Driven(tmp_path / "well", sync)
        closing = asyncio.ensure_future(well.driver.close())  # it begins before the loop comes round
        asked = well.driver.publish([b"last"])
        while not closing.done():
            well.syncer.go()
            await asyncio.sleep(0.001)
        assert closing.result()
        assert places(await asked) == [("a", 1)]
        await well.close()
        full_up = Driven(tmp_path / "full", sync)
        with monkeypatch.context() as patched:
            patched.setattr(DiskFiles, "write", full)
            with pytest.raises(StorageError):
                await full_up.driver.publish([b"lost"])
            assert not await full_up.close()

    asyncio.run(whole())


def test_what_makes_no_sense_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        with pytest.raises(UsageError, match="is member already"):
            driven.driver.call(lambda node, now: node.found(now))
        assert places(await driven.driver.publish([b"one"])) == [("a", 1)]

    run(tmp_path, "no", story)


def test_what_waits_for_its_sync_when_the_node_has_left_is_answered(tmp_path: Path) -> None:
    """The log that it waits for does not count any more, and there may be nothing else to write or send."""

    async def story(two: Two) -> None:
        a, b = two.a.driver, two.b.driver
        b.call(lambda node, now: node.leave(now))
        while a.node.member is None or "b" in a.node.member.view.view:
            while a.node.waiting:
                a.take()
            two.a.syncer.go()
            two.b.syncer.go()
            await asyncio.sleep(0.001)
            packets = [packet for _, packet in two.b.outlet.left]
            two.b.outlet.left.clear()
            if packets:
                a.packets("b", packets, two.a.now())
        asked = b.take()
        await two.b.turn()
        assert not asked.done()
        while b.node.member is not None:
            two.a.syncer.go()
            await asyncio.sleep(0.001)
            packets = [packet for _, packet in two.a.outlet.left]
            two.a.outlet.left.clear()
            if packets:
                b.packets("a", packets, two.b.now())
        two.b.syncer.go()
        await asked

    run_two(tmp_path, "always", story)

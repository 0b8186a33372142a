"""The driver: what a step does, in the order that keeps its promises."""

import asyncio

import pytest
from support.driven import Bench, rounds, run, until

from thence.core.errors import PeerError, StorageError, UsageError
from thence.core.machine import Ack
from thence.core.storage import DiskError
from thence.runtime import syncing, trouble
from thence.sim.disk import Disk


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trouble, "PROBE_EVERY_S", 0.002)


def before(journal: list[str], *events: str) -> None:
    """These happened in this order, each for the first time."""
    places = [journal.index(event) for event in events]
    assert places == sorted(places), journal


def test_a_step_is_written_then_traced_then_sent_then_answered() -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        bench.journal.clear()
        [delivered] = await bench.publish(b"hello")
        before(bench.journal, "write", "trace", "send 1 Message", "answer")
        assert bench.journal.count("write") == 1
        assert delivered.message.payload == b"hello"
        assert "synced" not in bench.journal
        await bench.driver.close()

    run(test)


def test_a_sync_that_could_not_be_tried_is_tried_again_and_nothing_leaves_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No descriptor was left: that is no failed sync, after which a node must end."""

    async def test() -> None:
        bench = Bench(always=True)
        bench.connect(1)
        sync = Disk.sync
        tries: list[list[bytes]] = []

        def later(disk: Disk, name: str) -> None:
            tries.append(bench.messages_to(1))
            if len(tries) < 4:
                raise DiskError("Too many open files", file=name, definite=True)
            sync(disk, name)

        monkeypatch.setattr(Disk, "sync", later)
        monkeypatch.setattr(syncing, "AGAIN_S", 0.001)
        await bench.publish(b"late")
        assert tries == [[]] * 4
        assert bench.messages_to(1) == [b"late"]
        assert not bench.driver.broken.done()
        await bench.driver.close()

    run(test)


def test_a_node_that_ends_does_not_wait_for_a_sync_that_cannot_be_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        bench = Bench(always=True)

        def never(_: Disk, name: str) -> None:
            raise DiskError("Too many open files", file=name, definite=True)

        monkeypatch.setattr(Disk, "sync", never)
        monkeypatch.setattr(syncing, "AGAIN_S", 0.001)
        asked = bench.publish(b"never")
        await rounds()
        await bench.driver.close()
        with pytest.raises(StorageError, match="Too many open files"):
            await asked

    run(test)


def test_a_peer_with_more_than_was_sent_is_refused_and_so_are_broadcasts_until_it_says_otherwise() -> None:
    """The data folder may be an old copy, or the peer may lie: neither stops a node."""

    async def test() -> None:
        bench = Bench()
        bench.connect(2)
        with pytest.raises(PeerError, match="member 1 has 1 messages of this node, which had sent 0"):
            bench.connect(1, has=1)
        bench.driver.down(1)
        assert not bench.driver.broken.done()
        with pytest.raises(StorageError, match="is an old copy"):
            await bench.publish(b"twice")
        bench.receive(2, bench.message(2, b"goes on"))
        await until(lambda: bench.taken == [b"goes on"])
        bench.connect(1)
        await bench.publish(b"once")
        assert bench.messages_to(1) == bench.messages_to(2) == [b"once"]
        await bench.driver.close()

    run(test)


def test_whatever_is_asked_for_before_the_loop_comes_round_is_one_write() -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        bench.journal.clear()
        answers = await asyncio.gather(*[bench.publish(b"%d" % i, b"%d again" % i) for i in range(5)])
        assert bench.journal.count("write") == 1
        sent = [d.message.payload for answer in answers for d in answer]
        assert sent == bench.messages_to(1)
        assert [len(answer) for answer in answers] == [2] * 5
        await bench.driver.close()

    run(test)


def test_one_that_claims_to_have_what_was_never_sent_is_refused_and_the_node_goes_on() -> None:
    """Whoever poses as a member must not stop a node with one packet."""

    async def test() -> None:
        bench = Bench()
        for has in ((1 << 32) + 1, (1 << 43) - 1):
            with pytest.raises(PeerError, match="claims to have"):
                bench.connect(1, has)
            bench.driver.down(1)
        assert not bench.driver.broken.done()
        bench.connect(1)
        await bench.publish(b"all the same")
        assert bench.messages_to(1) == [b"all the same"]
        await bench.driver.close()

    run(test)


def test_under_always_nothing_leaves_before_it_is_synced() -> None:
    async def test() -> None:
        bench = Bench(always=True, sync_at_once=False)
        bench.connect(1)
        bench.journal.clear()
        first = bench.publish(b"first")
        await rounds()
        assert bench.journal == ["write"], "only the log may know"
        second = bench.publish(b"second")
        await rounds()
        assert bench.journal == ["write", "write"]
        assert len(bench.syncer.waiting) == 1, "one sync at a time"
        bench.syncer.finish()
        await first
        assert bench.messages_to(1) == [b"first"]
        assert not second.done()
        before(bench.journal, "synced", "trace", "send 1 Message", "answer")
        bench.syncer.finish()
        await second
        assert bench.messages_to(1) == [b"first", b"second"]
        assert bench.trace.kinds() == ["send", "send"]
        bench.syncer.at_once = True
        await bench.driver.close()

    run(test)


def test_under_always_the_application_takes_only_what_is_synced() -> None:
    async def test() -> None:
        bench = Bench(always=True, sync_at_once=False)
        bench.connect(1)
        bench.receive(1, bench.message(1, b"theirs"))
        await rounds()
        assert bench.taken == []
        bench.syncer.finish()
        await until(lambda: bench.taken)
        assert bench.taken == [b"theirs"]
        bench.syncer.at_once = True
        while bench.syncer.waiting:
            bench.syncer.finish()
        await bench.driver.close()

    run(test)


def test_a_sealed_segment_lets_nothing_overtake_what_waits_for_its_sync() -> None:
    """Sealing syncs: later steps are durable while the sync of an earlier one is still under way."""

    async def test() -> None:
        bench = Bench(always=True, sync_at_once=False, segment_bytes=2000)
        bench.connect(1)
        payloads = [b"%d" % i + bytes(400) for i in range(10)]
        answers = []
        for payload in payloads:
            answers.append(bench.publish(payload))
            await rounds()
        while bench.syncer.waiting:
            bench.syncer.finish()
            await rounds()
        await asyncio.gather(*answers)
        assert bench.messages_to(1) == payloads
        bench.syncer.at_once = True
        await bench.driver.close()

    run(test)


def test_a_full_disk_refuses_and_begins_anew_and_goes_on_when_there_is_room() -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        await bench.publish(b"one")
        bench.fill_disk()
        bench.journal.clear()
        with pytest.raises(StorageError, match="nothing is written at present"):
            await bench.publish(b"never")
        assert [event for event in bench.journal if event != "synced"] == ["anew", "refused"]
        assert bench.driver.trouble is not None
        with pytest.raises(StorageError, match="nothing is written at present"):
            await bench.publish(b"never either")
        bench.make_room()
        await until(lambda: bench.driver.trouble is None)
        bench.connect(1, has=1)
        [again] = await bench.publish(b"two")
        assert again.message.dot >> 20 == 2, "a dot was skipped, or used twice"
        assert bench.messages_to(1) == [b"one", b"two"]
        assert bench.trace.kinds() == ["send", "send"]
        await bench.driver.close()

    run(test)


def test_what_could_not_be_written_was_never_received_and_comes_again() -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        theirs = bench.message(1, b"theirs")
        bench.fill_disk()
        bench.receive(1, theirs)
        assert bench.taken == []
        bench.receive(1, theirs)  # the link is about to go down: nothing that comes over it counts
        bench.driver.down(1)
        bench.make_room()
        await until(lambda: bench.driver.trouble is None)
        bench.driver.up(1)
        assert bench.acknowledged(1) == 0, "it was forgotten, so it must not be acknowledged"
        bench.receive(1, Ack((0, 1, 0), ()), theirs)
        await rounds()
        assert bench.taken == [b"theirs"]
        await until(lambda: "deliver" in bench.trace.kinds())
        assert bench.trace.kinds().count("deliver") == 1
        await bench.driver.close()

    run(test)


def test_wake_ups_that_a_failed_step_asked_for_are_asked_for_again() -> None:
    """Else nothing would be acknowledged or told by the clock ever again."""

    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        theirs = bench.message(1, b"theirs")
        bench.fill_disk()
        bench.receive(1, theirs)
        bench.driver.down(1)
        asked = bench.driver._wakes
        asked.clear()
        bench.make_room()
        await until(lambda: bench.driver.trouble is None)
        assert len(asked) == 1, "to tell what the client has seen"
        bench.driver.up(1)
        bench.receive(1, Ack((0, 1, 0), ()), theirs)
        assert len(asked) == 2, "to acknowledge it"
        await bench.driver.close()

    run(test)


def test_calls_that_wait_for_a_sync_when_the_disk_fills_up_are_answered_by_it() -> None:
    """They are in the log: to refuse them would be wrong, and so would be to answer before the sync."""

    async def test() -> None:
        bench = Bench(always=True, sync_at_once=False)
        bench.connect(1)
        first = bench.publish(b"first")
        await rounds()
        bench.fill_disk()
        second = bench.publish(b"second")
        await rounds()
        assert isinstance(second.exception(), StorageError)
        assert not first.done() or bench.log.durable == bench.log.tail, "answered before it was synced"
        while bench.syncer.waiting:
            bench.syncer.finish()
        [delivered] = await first
        assert delivered.message.payload == b"first"
        assert bench.messages_to(1) == [], "over a link that begins anew"
        bench.make_room()
        bench.syncer.at_once = True
        await until(lambda: bench.driver.trouble is None)
        bench.connect(1)
        await until(lambda: bench.messages_to(1) == [b"first"])
        await bench.driver.close()

    run(test)


def test_a_trace_that_cannot_be_written_holds_back_what_it_should_tell_of() -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        bench.trace.full = True
        bench.journal.clear()
        answer = bench.publish(b"one")
        await rounds()
        assert not answer.done(), "it is in the log, and will be sent: that is no refusal"
        assert bench.messages_to(1) == []
        assert bench.journal[:2] == ["write", "anew"]
        with pytest.raises(StorageError):
            await bench.publish(b"refused")
        bench.trace.full = False
        await answer
        bench.connect(1)
        assert bench.messages_to(1) == [b"one"]
        assert bench.trace.kinds() == ["send"]
        await bench.driver.close()

    run(test)


def test_a_failed_sync_breaks_the_driver_for_good() -> None:
    async def test() -> None:
        bench = Bench(always=True, sync_at_once=False)
        bench.connect(1)
        answer = bench.publish(b"one")
        await rounds()
        waiting = bench.publish(b"two")
        bench.disk.fail("sync")
        bench.syncer.finish()
        error = await bench.driver.broken
        assert "sync failed" in str(error)
        for refused in (answer, waiting):
            with pytest.raises(StorageError):
                await refused
        assert bench.messages_to(1) == []
        assert bench.trace.kinds() == [], "a trace must not know what the disk may have forgotten"
        with pytest.raises(StorageError):
            await bench.publish(b"three")
        await bench.driver.close()

    run(test)


def test_a_sync_that_fails_inside_a_commit_breaks_it_as_well() -> None:
    """Sealing a segment syncs it. To try again for ever would be no help."""

    async def test() -> None:
        bench = Bench(segment_bytes=500)
        bench.disk.fail("sync")
        answers = [bench.publish(bytes(200)) for _ in range(5)]
        await bench.driver.broken
        for answer in answers:
            with pytest.raises(StorageError):
                await answer
        await bench.driver.close()

    run(test)


@pytest.mark.parametrize("garbage", ["bytes", "gap"])
def test_what_came_before_garbage_counts(garbage: str) -> None:
    async def test() -> None:
        bench = Bench()
        bench.connect(1)
        good = [bench.message(1, b"one"), bench.message(1, b"two")]
        bench.message(1, b"left out")
        bad = b"\xff\xff" if garbage == "bytes" else bench.codec.encode(bench.message(1, b"four"))
        after = bench.codec.encode(bench.message(1, b"five"))
        data = [bench.codec.encode(message) for message in good]
        with pytest.raises(PeerError):
            bench.driver.packets(1, [*data, bad, after], bench.now)
        await rounds()
        assert bench.taken == [b"one", b"two"]
        assert bench.log.vector[1] == 2
        bench.driver.down(1)
        bench.driver.up(1)
        assert bench.acknowledged(1) == 2
        await bench.driver.close()

    run(test)


def test_a_link_that_came_up_during_trouble_begins_anew_after_it() -> None:
    """Its greeting was never sent: the pair would wait for each other for ever."""

    async def test() -> None:
        bench = Bench()
        bench.fill_disk()
        with pytest.raises(StorageError):
            await bench.publish(b"refused")
        bench.driver.up(1)
        assert bench.sent == []
        bench.make_room()
        bench.anew.clear()
        await until(lambda: bench.driver.trouble is None)
        assert bench.anew == ["links were made while nothing could be written"]
        await bench.driver.close()

    run(test)


def test_closing_settles_what_was_asked_for_and_refuses_what_comes_after() -> None:
    async def test() -> None:
        bench = Bench(always=True)
        bench.connect(1)
        answer = bench.publish(b"last words")
        await bench.driver.close()
        assert answer.done()
        assert answer.exception() is None
        assert bench.messages_to(1) == [b"last words"]
        with pytest.raises(StorageError, match="closed"):
            await bench.publish(b"too late")

    run(test)


def test_closing_in_trouble_leaves_no_call_unanswered() -> None:
    async def test() -> None:
        bench = Bench()
        bench.trace.full = True
        answer = bench.publish(b"in the log")
        await rounds()
        await bench.driver.close()
        with pytest.raises(StorageError, match="closed before it was certain"):
            await answer

    run(test)


def test_a_payload_that_no_log_takes_is_refused_and_changes_nothing() -> None:
    async def test() -> None:
        bench = Bench()
        with pytest.raises(UsageError, match="longest"):
            await bench.publish(bytes(65 << 20))
        [delivered] = await bench.publish(b"small")
        assert delivered.message.dot >> 20 == 1
        await bench.driver.close()

    run(test)


def test_samples_of_latency_are_of_what_is_new() -> None:
    """Repeats after a broken link are never delivered: kept, they would crowd out all others."""

    async def test() -> None:
        bench = Bench()
        observed: list[int] = []
        bench.driver.arrivals.tell = observed.append
        bench.connect(1)
        theirs = bench.message(1, b"theirs")
        bench.receive(1, theirs)
        for _ in range(3):
            bench.receive(1, theirs)
        await rounds()
        assert observed == [0]
        assert not bench.driver.arrivals.at
        await bench.driver.close()

    run(test)

"""Mistakes that a program makes with its node: each has a result that a program can rely on, an error that
names the way out, and does no harm to the log."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.changing import Changing, EitherPair, Journal, agree, happens
from support.failing_disk import FailingDisk
from support.open_nodes import run, until

from thence import (
    ApplicationError,
    Delivered,
    Orphaned,
    PeerError,
    Stable,
    StorageError,
    UsageError,
    ViewChanged,
)
from thence.runtime import driver
from thence.runtime.application import OpenNode
from thence.runtime.home import FORKED
from thence.runtime.reader import Events


async def payloads(events: Events, last: bytes) -> list[bytes]:
    seen: list[bytes] = []
    while last not in seen:
        event = await anext(events)
        if isinstance(event, Delivered):
            seen.append(event.payload)
    return seen


def now(coroutine: Coroutine[Any, Any, object]) -> str:
    """What is said at once, without any event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return "done"
    except UsageError as error:
        return str(error)
    coroutine.close()
    return "it waits"


def written(node: OpenNode) -> int:
    """Own messages that are in the log, synced or not."""
    sent: int = node._host.running.machine.sent
    return sent


# Broadcasts that are refused


def test_a_broadcast_that_is_refused_does_not_count_as_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, disk = Changing(tmp_path, "a"), FailingDisk(tmp_path / "a", monkeypatch)

    async def whole() -> None:
        async with group.open("a", sync="always") as a:
            await a.broadcast(b"one")
            disk.full = True
            with pytest.raises(StorageError, match="no space") as told:
                await a.broadcast(b"no room")
            words = str(told.value).split()
            assert len(set(words)) == len(words), "the file is named once"
            disk.full = False
            await until(lambda: a.status().log.trouble is None)
            disk.fails = True
            with pytest.raises(StorageError) as told:
                await a.broadcast(b"not synced")
            assert not told.value.definite
            assert a.status().sent == 1
            assert "thence_sent_messages_total 1\n" in a._host.metrics()

    async def story() -> None:
        with pytest.raises(StorageError):
            await whole()

    run(story)


# Cancelled broadcasts


def test_a_broadcast_cancelled_before_the_loop_comes_round_never_was(either: EitherPair) -> None:
    async def story() -> None:
        async with either.open("a") as a, either.open("b") as b:
            first, sending = [asyncio.ensure_future(a.broadcast(text)) for text in (b"first", b"never")]
            await asyncio.sleep(0)  # it was asked for, and is not in the log yet
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            tag = await a.broadcast(b"sent")
            assert a.name_of(tag)[1] == a.name_of(await first)[1] + 1
            assert await payloads(b.events(), b"sent") == [b"first", b"sent"]
            assert a.status().sent == 2

    run(story)


def test_a_broadcast_cancelled_while_the_disk_syncs_is_in_the_log_and_comes(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def story() -> None:
        async with either.open("a", sync="always") as a, either.open("b") as b:
            disk.goes.clear()
            before = written(a)
            sending = asyncio.ensure_future(a.broadcast(b"written"))
            await until(lambda: written(a) == before + 1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            disk.goes.set()
            await a.broadcast(b"after it")
            assert await payloads(b.events(), b"after it") == [b"written", b"after it"]

    run(story)


def test_beyond_a_bound_broadcasts_wait_for_their_turn_and_each_gets_its_own_tag(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "a", monkeypatch)
    few = {"application.broadcasts_max": 8}

    async def story() -> None:
        async with either.open("a", sync="always", settings=few) as a, either.open("b") as b:
            disk.goes.clear()
            before = written(a)
            sending = [asyncio.ensure_future(a.broadcast(b"%d" % number)) for number in range(100)]
            await until(lambda: written(a) >= before + 8)
            await asyncio.sleep(0)
            sent = written(a) - before
            sending[50].cancel()
            disk.goes.set()
            assert sent == 8, "the others wait"
            tags = [await one for number, one in enumerate(sending) if number != 50]
            names = [a.name_of(tag) for tag in tags]
            assert names == [("a", names[0][1] + number) for number in range(99)]
            wanted = [b"%d" % number for number in range(100) if number != 50]
            assert await payloads(b.events(), b"99") == wanted

    run(story)


def test_a_broadcast_that_waits_for_its_turn_is_told_when_the_node_is_closed(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def story() -> None:
        async with either.open("a", sync="always", settings={"application.broadcasts_max": 1}) as a:
            disk.goes.clear()
            before = written(a)
            sending = [asyncio.ensure_future(a.broadcast(b"%d" % number)) for number in range(3)]
            await until(lambda: written(a) == before + 1)
            closing = asyncio.ensure_future(a.__aexit__(None, None, None))
            await asyncio.sleep(0)
            disk.goes.set()
            await closing
            await sending[0]
            for one in sending[1:]:
                with pytest.raises(UsageError, match="this node is closed") as told:
                    await one
                assert told.value.definite

    run(story)


def test_a_broadcast_that_waits_for_its_sync_is_answered_though_the_node_began_anew_from_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)
    group, disk = Changing(tmp_path, "a"), FailingDisk(tmp_path / "a", monkeypatch)

    async def story() -> None:
        async with group.open("a", sync="always") as a:
            disk.goes.clear()
            before = written(a)
            sending = asyncio.ensure_future(a.broadcast(b"one"))
            await until(lambda: written(a) == before + 1)
            disk.full = True
            with pytest.raises(StorageError, match="no space") as told:
                await a.broadcast(b"two")
            assert told.value.definite
            disk.full = False
            disk.goes.set()
            first = await sending
            await until(lambda: a.status().log.trouble is None)
            second = await a.broadcast(b"three")
            assert first.before(second)
            assert a.name_of(second) == ("a", a.name_of(first)[1] + 1)

    run(story)


def test_after_a_failed_sync_a_broadcast_may_have_been_sent_and_says_so(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def whole() -> None:
        async with either.open("a", sync="always") as a:
            disk.fails = True
            with pytest.raises(StorageError, match="input/output error") as told:
                await a.broadcast(b"one")
            assert not told.value.definite
            with pytest.raises(StorageError, match="input/output error") as told:
                await a.broadcast(b"two")
            assert told.value.definite

    async def story() -> None:
        with pytest.raises(StorageError, match="input/output error"):
            await whole()

    run(story)


# From elsewhere


def test_another_thread_or_loop_is_told_how_to_call_and_that_works(either: EitherPair) -> None:
    async def story() -> None:
        async with either.open("a") as a, either.open("b") as b:
            loop, events = asyncio.get_running_loop(), a.events()
            calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
                lambda: a.broadcast(b"from elsewhere"), lambda: anext(events),
            ]  # fmt: skip
            for call in calls:
                with pytest.raises(UsageError, match="run_coroutine_threadsafe"):
                    await asyncio.to_thread(lambda call=call: asyncio.run(call()))  # type: ignore[misc]
            with pytest.raises(UsageError, match="run_coroutine_threadsafe"):
                await asyncio.to_thread(b.events)
            await asyncio.to_thread(
                lambda: asyncio.run_coroutine_threadsafe(a.broadcast(b"as told"), loop).result(20)
            )
            assert await payloads(b.events(), b"as told") == [b"as told"]

    run(story)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_neither_writes_nor_speaks_nor_holds_the_folder(either: EitherPair) -> None:
    def child(a: OpenNode, events: Events, tell: int, end: int) -> None:
        driver = a._host.running
        asked = driver.publish([b"from a fork"])
        driver._batch._turn_over()
        driver._alarm._rings()
        said = [
            now(a.broadcast(b"from a fork")), now(events.__anext__()), now(a.__aexit__(None, None, None)),
            type(asked.exception()).__name__, str(driver.trouble),
        ]  # fmt: skip
        os.write(tell, "\n".join(said).encode() + b"\0")
        os.read(end, 1)

    async def story() -> None:
        heard, tell = os.pipe()
        end, let_end = os.pipe()
        a = await either.open("a").__aenter__()
        async with either.open("b") as b:
            await a.broadcast(b"one")
            events = a.events()
            tail = a.status().log.tail
            process = os.fork()
            if not process:
                os.close(let_end)
                try:
                    child(a, events, tell, end)
                finally:
                    os._exit(0)
            said = b""
            while not said.endswith(b"\0"):
                said += os.read(heard, 4096)
            assert said[:-1].decode().split("\n") == [FORKED, FORKED, "done", "StorageError", FORKED]
            assert a.status().log.tail == tail
            await a.broadcast(b"two")
            await a.__aexit__(None, None, None)
            async with either.open("a") as a:  # the forked process lives
                await a.broadcast(b"three")
                assert await payloads(b.events(), b"three") == [b"one", b"two", b"three"]
        os.close(let_end)
        os.waitpid(process, 0)
        for pipe in (heard, tell, end):
            os.close(pipe)

    run(story)


def test_a_closed_node_says_so_whatever_is_asked_of_it(either: EitherPair) -> None:
    async def story() -> None:
        async with either.open("a") as a:
            tag = await a.broadcast(b"one")
            events = a.events()
        assert await anext(events, None) is None
        for call in (a.broadcast(b"late"), a.until_stable(tag)):
            with pytest.raises(UsageError, match="this node is closed"):
                await call
        with pytest.raises(UsageError, match="this node is closed"):
            a.events()
        with pytest.raises(UsageError, match="this node is closed"):
            await a.leave()
        with pytest.raises(UsageError, match="this node is closed"):
            a.evict("b")

    run(story)


def test_a_second_reader_is_refused_and_the_first_goes_on(either: EitherPair) -> None:
    async def story() -> None:
        async with either.open("a") as a, either.open("b") as b:
            reading = asyncio.ensure_future(payloads(b.events(), b"two"))
            await a.broadcast(b"one")
            await until(lambda: b.status().delivered >= 1)
            with pytest.raises(UsageError, match="have a reader already"):
                b.events()
            await a.broadcast(b"two")
            assert await reading == [b"one", b"two"]
            await a.broadcast(b"three")
            assert await payloads(b.events(), b"three") == [b"three"], "it has ended, so there may be another"

    run(story)


def test_a_reader_that_was_cancelled_while_it_took_a_message_hands_it_out_once_and_not_before_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, disk = Changing(tmp_path, "ab"), FailingDisk(tmp_path / "b", monkeypatch)

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a", sync="always") as b:
            await agree(a, b)
            events = b.events()
            await happens(events, lambda event: isinstance(event, ViewChanged))
            disk.goes.clear()
            await a.broadcast(b"one")
            await until(lambda: b._host.running.machine.waiting)
            reading = asyncio.ensure_future(anext(events))
            await until(lambda: not b._host.running.machine.waiting)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            reading = asyncio.ensure_future(anext(events))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not reading.done(), "it is not on the disk"
            disk.goes.set()
            event = await reading
            assert isinstance(event, Delivered)
            await a.broadcast(b"two")
            assert await payloads(events, b"two") == [b"two"]

    run(story)


# Callbacks


class Faulty(Journal):
    """A program with a mistake in one of its callbacks."""

    def __init__(self, where: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self._where = where
        self._error = error or ValueError("a mistake")

    def _fail(self, where: str) -> None:
        if where == self._where:
            raise self._error

    def apply(self, event: Delivered) -> None:
        if event.payload == b"bad":
            self._fail("apply")
        super().apply(event)

    def state(self) -> bytes:
        if self.lines:
            self._fail("state")
        return super().state()

    def install(self, state: bytes) -> None:
        if state:
            self._fail("install")
        super().install(state)


ERRORS = [ValueError("a mistake"), UsageError("a mistake"), StorageError("a mistake"), PeerError("a mistake")]


def check(told: pytest.ExceptionInfo[ApplicationError], error: Exception, name: str) -> None:
    assert f"the program's {name}() raised {type(error).__name__}: a mistake" in str(told.value)
    causes: list[BaseException] = [told.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert error in causes


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_program_that_cannot_apply_its_own_operation_stops_its_node_and_gets_it_again(
    tmp_path: Path, error: Exception
) -> None:
    group = Changing(tmp_path, "ab")

    async def whole() -> None:
        async with group.open("a", application=Faulty("apply", error)) as a:
            await a.broadcast(b"good")
            with pytest.raises(ApplicationError) as told:
                await a.broadcast(b"bad")
            check(told, error, "apply")
            assert not told.value.definite, "it is in the log"
            with pytest.raises(ApplicationError) as told:
                await happens(a.events(), lambda event: not isinstance(event, ViewChanged))
            check(told, error, "apply")

    async def story() -> None:
        with pytest.raises(ApplicationError) as told:
            await whole()
        check(told, error, "apply")
        book = Journal()
        async with group.open("a", application=book) as a:
            await a.broadcast(b"again")
            assert book.lines == ["good", "bad", "again"]

    run(story)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_program_that_cannot_apply_anothers_operation_stops_its_node_and_gets_it_again(
    tmp_path: Path, error: Exception
) -> None:
    group = Changing(tmp_path, "ab")

    async def whole(a: OpenNode) -> None:
        async with group.open("b", join="a", application=Faulty("apply", error)) as b:
            await agree(a, b)
            await a.broadcast(b"good")
            await a.broadcast(b"bad")
            await a.broadcast(b"after it")
            await b._host.stopping.wait()
            assert "this node must stop: the program's apply() raised" in (b._host.health() or "")

    async def story() -> None:
        async with group.open("a", application=Journal()) as a:
            with pytest.raises(ApplicationError) as told:
                await whole(a)
            check(told, error, "apply")
            book = Journal()
            async with group.open("b", application=book) as b:
                await agree(a, b)
                assert book.lines == ["good", "bad", "after it"]

    run(story)


@pytest.mark.parametrize("where", ["state", "install"])
def test_a_program_that_cannot_give_or_take_a_state_stops_its_node(tmp_path: Path, where: str) -> None:
    """It is the contact, or the joiner; the other goes on."""
    group, error = Changing(tmp_path, "ab"), ValueError("a mistake")

    async def joining(book: Journal) -> None:
        async with group.open("b", join="a", application=book) as b:
            await b.broadcast(b"of b")

    async def whole(give: Journal, take: Journal) -> None:
        async with group.open("a", application=give) as a:
            await a.broadcast(b"of a")
            trying = asyncio.ensure_future(joining(take))
            await until(lambda: trying.done() or a._host.stopping.is_set())
            trying.cancel()
            with pytest.raises((asyncio.CancelledError, ApplicationError)) as told:
                await trying
            if where == "install":
                check(told, error, where)  # type: ignore[arg-type]

    async def story() -> None:
        faulty = Faulty(where, error)
        if where == "state":
            with pytest.raises(ApplicationError) as told:
                await whole(faulty, Journal())
            check(told, error, where)
        else:
            await whole(Journal(), faulty)
        give, take = Journal(), Journal()
        async with (
            group.open("a", application=give) as a,
            group.open("b", join="a", application=take) as b,
        ):
            await agree(a, b)
            assert give.lines == take.lines == ["of a"]

    run(story)


def test_a_member_whose_state_cannot_be_installed_is_given_up_for_another(tmp_path: Path) -> None:
    class Lying(Journal):
        def state(self) -> bytes:
            return b"\xff" if self.lines else b""

    group = Changing(tmp_path, "abc")

    async def story() -> None:
        book = Journal()
        async with (
            group.open("a", application=Lying()) as a,
            group.open("b", join="a", application=Journal()) as b,
        ):
            await a.broadcast(b"of a")
            await agree(a, b)
            async with group.open("c", join="ab", application=book) as c:
                await agree(a, b, c)
                assert book.lines == ["of a"]

    run(story)


def test_a_state_that_is_no_bytes_is_told(tmp_path: Path) -> None:
    class Text(Journal):
        def state(self) -> bytes:
            return "text"  # type: ignore[return-value]

    group = Changing(tmp_path, "ab")

    async def story() -> None:
        with pytest.raises(ApplicationError, match="gave str, not bytes"):
            await group.open("a", application=Text()).__aenter__()
        async with group.open("a", application=Journal()) as a:
            await a.broadcast(b"one")

    run(story)


def test_a_chunk_of_a_state_that_is_no_bytes_is_told(tmp_path: Path) -> None:
    class Texts:
        def apply(self, event: Delivered) -> None:
            """Nothing."""

        def state_chunks(self) -> Iterator[bytes]:
            yield b"a"
            yield "text"  # type: ignore[misc]

        def install_chunks(self, chunks: Iterator[bytes]) -> None:
            """Nothing."""

    group = Changing(tmp_path, "ab")

    async def story() -> None:
        with pytest.raises(ApplicationError, match="state_chunks\\(\\) gave str, not bytes"):
            await group.open("a", application=Texts()).__aenter__()

    run(story)


def test_a_program_that_cannot_say_what_is_sent_again_stops_its_node_and_is_asked_again(
    tmp_path: Path,
) -> None:
    group, error = Changing(tmp_path, "ab"), ValueError("a mistake")

    def wanted(orphan: Orphaned) -> bool:
        raise error

    async def whole(a: OpenNode) -> None:
        async with group.open("b", join="a", send_again=wanted) as b:
            await agree(a, b)
            b._host.fault("cut", "a", 0)
            await b.broadcast(b"no member hears this")
            a.evict("b")
            await until(lambda: a.members == ("a",))
            b._host.fault("mend", None, 0)
            await b._host.stopping.wait()

    async def story() -> None:
        async with group.open("a") as a:
            with pytest.raises(ApplicationError) as told:
                await whole(a)
            check(told, error, "send_again")
            async with group.open("b") as b:
                assert await payloads(a.events(), b"no member hears this") == [b"no member hears this"]
                assert b.me != "b"

    run(story)


# A program that does not read


def test_unread_events_take_bounded_memory_and_the_last_of_each_kind_is_told(
    either: EitherPair,
) -> None:
    few = {"application.events_max": 10}

    async def story() -> None:
        async with either.open("a", settings=few) as a, either.open("b") as b:
            unread, at_b = a.events(), b.events()
            for number in range(100):
                tag = await a.broadcast(b"%d" % number)
            reading = asyncio.ensure_future(payloads(at_b, b"99"))
            await a.until_stable(tag)
            await reading
            assert len(a._program.happened) <= 10
            last = a.name_of(tag)
            seen: list[object] = []
            while not seen or not isinstance(seen[-1], Stable) or (seen[-1].origin, seen[-1].seq) != last:
                seen.append(await anext(unread))
            assert len(seen) <= 10
            assert either.changing is any(isinstance(event, ViewChanged) for event in seen)

    run(story)


def test_unread_views_become_the_last_one(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a", settings={"application.events_max": 3}) as a:
            for _ in range(4):
                async with group.open("b", join="a") as b:
                    await until(lambda: len(a.members) == 2)
                    await b.leave()
                await until(lambda: len(a.members) == 1)
                assert len(a._program.happened) <= 4
            events, seen = a.events(), list[ViewChanged]()
            while not seen or seen[-1].members != ("a",):
                event = await anext(events)
                assert isinstance(event, ViewChanged)
                seen.append(event)
            assert len(seen) <= 4

    run(story)

"""Tags as values: over restarts and state transfers, for states and for readers, and what becomes stable."""

import json
from pathlib import Path

import pytest
from support.changing import Changing, agree
from support.open_nodes import delivered, run, stable, until

from thence import Delivered, Stable, Tag, UsageError
from thence.replica.positions import place_of


class Dots:
    """Keeps the dots of operations that are not stable, and which of them each one had seen."""

    def __init__(self) -> None:
        self.open: list[tuple[str, int]] = []
        self.saw: dict[str, list[str]] = {}
        self.positions: list[int] = []
        self.told: list[tuple[str, int]] = []
        self.carried: list[str] = []

    def apply(self, event: Delivered) -> None:
        assert event.tag is not None
        assert event.tag.dot == (event.origin, event.seq)
        seen = [f"{origin}:{seq}" for origin, seq in self.open if event.tag.saw(origin, seq)]
        self.saw[event.payload.decode()] = seen
        self.open.append(event.tag.dot)
        self.positions.append(event.position)
        if event.carried:
            self.carried.append(event.payload.decode())

    def stable(self, event: Stable) -> None:
        self.told.append(event.tag.dot)
        self.open = [dot for dot in self.open if dot[0] != event.origin or dot[1] > event.seq]

    def state(self) -> bytes:
        return json.dumps([self.open, self.saw]).encode()

    def install(self, state: bytes) -> None:
        self.open, self.saw = [], {}
        if state:
            dots, self.saw = json.loads(state)
            self.open = [(origin, seq) for origin, seq in dots]


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def test_a_tag_is_a_value() -> None:
    tag, same = Tag(None, "a", ("b", 3)), Tag(None, "a", ("b", 3))
    assert repr(tag) == "Tag(b:3)"
    assert tag == same
    assert len({tag, same, Tag(None, "a", ("b", 4))}) == 2
    assert not tag.before(same)
    assert tag.before(Tag(None, "a", ("b", 4))), "of one origin the order is known"
    assert not Tag(None, "a", ("b", 4)).before(tag)
    other = Tag(None, "a", ("c", 1))
    assert not tag.before(other), "both are stable"
    assert not other.before(tag)
    assert not tag.concurrent(other)
    with pytest.raises(UsageError, match=r"Tag\(b:3\) is of a, which is over"):
        tag.saw("a", 1)


def test_what_a_restart_applies_again_comes_with_its_tag_and_position(group: Changing) -> None:
    async def story() -> None:
        first, other = Dots(), Dots()
        async with group.open("a", application=first) as a:
            async with group.open("b", join="a", application=other) as b:
                await agree(a, b)
            await a.broadcast(b"one")
            await a.broadcast(b"two")
            positions = first.positions
            assert first.saw == {"one": [], "two": [f"a:{first.open[0][1]}"]}
        again = Dots()
        async with group.open("a", application=again) as a:
            assert again.saw == first.saw
            assert again.positions == positions[-len(again.positions) :]
            assert again.positions[-1] == positions[-1]
            one, two = again.open
            assert a.tag(*one).before(a.tag(*two))
            assert a.tag(*two).saw(*one)
            assert not a.tag(*one).saw(*two)
            with pytest.raises(UsageError, match="a:99 was not delivered at a"):
                a.tag("a", 99)
            three = await a.broadcast(b"three")
            assert again.saw["three"] == [f"{origin}:{seq}" for origin, seq in (one, two)]
            assert a.tag(*one).before(three)

    run(story)


def test_a_joiner_compares_what_its_state_brought_with_what_comes(group: Changing) -> None:
    async def story() -> None:
        first, other, late = Dots(), Dots(), Dots()
        async with group.open("a", application=first) as a:
            async with group.open("b", join="a", application=other) as b:
                await agree(a, b)
            mine = await a.broadcast(b"mine")  # not stable: b is away
            async with group.open("c", join="a", application=late) as c:
                assert late.open == [mine.dot]
                assert late.saw == {"mine": []}
                await c.broadcast(b"reply")
                assert late.saw["reply"] == [f"a:{mine.seq}"]
                await until(lambda: "reply" in first.saw)
                assert first.saw["reply"] == [f"a:{mine.seq}"]
                assert c.tag(*mine.dot).before(c.tag(*late.open[-1]))
                async with group.open("b", application=(back := Dots())) as b:
                    await until(lambda: not (first.open or late.open or back.open))
                    assert a.tag(*mine.dot).before(await a.broadcast(b"later")), "it is stable"

    run(story)


def test_what_is_stable_is_told_again_after_a_restart_and_no_message_of_the_group_is(
    group: Changing,
) -> None:
    async def story() -> None:
        first, other = Dots(), Dots()
        async with (
            group.open("a", application=first) as a,
            group.open("b", join="a", application=other) as b,
        ):
            sent = [(await a.broadcast(b"%d" % number)).dot for number in range(3)]
            sent.append((await b.broadcast(b"b")).dot)
            await until(lambda: not (first.open or other.open))
            assert sorted(first.told) == sorted(sent), "joins are messages too, and none of a program's"
        async with group.open("b", application=(again := Dots())) as b:
            assert not again.open, "none is left without its word"

    run(story)


def test_a_reader_is_told_of_its_own_messages_and_gets_them_again(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a", application=Dots()) as b:
            events = a.events(own=True)
            mine = await a.broadcast(b"mine")
            theirs = await b.broadcast(b"theirs")
            found = await delivered(events, 2)
            assert {event.payload for event in found} == {b"mine", b"theirs"}
            kept = next(event for event in found if event.payload == b"mine")
            assert kept.tag == mine
            await stable(events, *theirs.dot)
            last = await a.broadcast(b"lost by the program")
            await a.until_stable(last)
        async with group.open("a") as a:
            begun = place_of(1, 0)
            again = a.events(after=begun, own=True)
            found = await delivered(again, 3)
            assert [event.payload for event in found if event.origin == "a"] == [
                b"mine",
                b"lost by the program",
            ]
            assert (await stable(again, *last.dot)).tag == last

    run(story)


def test_one_whose_own_messages_wait_unread_is_refused_more_of_them(group: Changing) -> None:
    async def story() -> None:
        few = {"application.events_max": 8}
        async with group.open("a", settings=few) as a:
            events = a.events(own=True)
            while len(a._program.happened) <= 8:
                await a.broadcast(b"x")
            with pytest.raises(UsageError, match="not sent: 9 events wait for a reader with own=True"):
                await a.broadcast(b"x")
            events.close()
            await a.broadcast(b"y")

    run(story)


def test_a_context_is_carried_from_node_to_node(group: Changing) -> None:
    async def story() -> None:
        async with (
            group.open("a", application=Dots()) as a,
            group.open("b", join="a", application=Dots()) as b,
        ):
            tag = await a.broadcast(bytearray(b"written here"))
            context = a.context()
            assert context["a"] == tag.seq
            await b.delivered(context)
            assert b.context()["a"] >= tag.seq
            await a.reached(tag.dot, 2)
            with pytest.raises(UsageError, match="a context has names and counters"):
                await b.delivered({"a": -1})
            with pytest.raises(UsageError, match="a message reaches 1 to 2 members, not 3"):
                await a.reached(tag, 3)

    run(story)


def test_an_operation_that_was_carried_says_so(group: Changing) -> None:
    async def story() -> None:
        first, other = Dots(), Dots()
        faults = {"allow_faults": True}
        async with (
            group.open("a", application=first) as a,
            group.open("b", join="a", application=other, settings=faults) as b,
        ):
            await agree(a, b)
            b._host.fault("cut", None, 0)
            tag = await b.broadcast(b"alone")
            a.evict("b")
            await until(lambda: a.members == ("a",))
            b._host.fault("heal", None, 0)
            await until(lambda: "alone" in first.saw and b.me == "b~2")
            assert first.carried == ["alone"]
            assert a.tag(*tag.dot).dot == tag.dot
            await until(lambda: tag.dot in first.told)
            assert a.tag(*tag.dot).before(await a.broadcast(b"next"))

    run(story)

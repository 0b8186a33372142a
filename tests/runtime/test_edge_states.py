"""States of groups on an edge tree: in chunks, and with the messages of a turn together."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.edge_nodes import LINE, Edge, attached, edge
from support.open_nodes import run, until

import thence
from thence.core.errors import ApplicationError
from thence.replica.edge_parts import REFUSALS_MAX
from thence.replica.events import Delivered
from thence.runtime.pacing import LinkLimits


class Chunks:
    """A list of messages, in a chunk each, that takes runs as they are; it has no other face."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.runs: list[tuple[str, int, int]] = []
        self.installs = 0

    def apply(self, event: Delivered) -> None:
        assert event.group == "g"
        self.lines.append(event.payload)

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: thence.Tag | None) -> None:
        assert tag is None
        self.runs.append((origin, first_seq, len(ops)))
        self.lines += ops

    def state_chunks(self) -> Iterator[bytes]:
        return iter([line + b";" for line in self.lines])

    def install_chunks(self, chunks: Iterator[bytes]) -> None:
        self.installs += 1
        self.lines = b"".join(chunks).split(b";")[:-1]


def test_a_state_in_chunks_takes_turns_together_and_is_handed_over(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        at_root, at_a, at_b = Chunks(), Chunks(), Chunks()
        async with tree.open("r", {"g": at_root}) as r, tree.open("a", {"g": at_a}) as a:
            await attached(a)
            await until(lambda: "g" in a.groups)
            await asyncio.gather(*[a.multicast(b"%d" % number, group="g") for number in range(5)])
            await until(lambda: len(at_root.lines) == 5)
            assert at_root.lines == at_a.lines == [b"0", b"1", b"2", b"3", b"4"]
            runs = [*at_a.runs]
            assert runs
            assert at_root.runs == runs
            assert all(origin == a.me for origin, _, _ in runs)
            async with tree.open("b") as b:
                await attached(b)
                await b.join_group("g", state=at_b)
                assert at_b.lines == at_a.lines
                assert at_b.installs == 1
                await b.multicast(b"alone", group="g")
                await until(lambda: len(at_a.lines) == len(at_root.lines) == 6)
                assert at_a.runs == runs
            again = Chunks()
            async with tree.open("b", {"g": again}) as b:
                assert again.lines == at_b.lines
                await r.multicast(b"more", group="g")
                await until(lambda: len(again.lines) == 7)

    run(test)
    tree.judged()


def test_a_restart_tells_a_turn_together_again(tmp_path: Path) -> None:
    tree = Edge(tmp_path, {"r": ""})

    async def test() -> None:
        first, again = Chunks(), Chunks()
        async with tree.open("r", {"g": first}) as r:
            await r.multicast(b"one", group="g")
            await asyncio.gather(*[r.multicast(b"%d" % number, group="g") for number in range(3)])
        async with tree.open("r", {"g": again}):
            assert again.lines == first.lines == [b"one", b"0", b"1", b"2"]
            assert again.runs == first.runs
            assert again.runs

    run(test)


class Choosy(Chunks):
    """Cannot begin from some of the states that it is given."""

    def __init__(self, refuses: int) -> None:
        super().__init__()
        self.refuses = refuses

    def install_chunks(self, chunks: Iterator[bytes]) -> None:
        given = b"".join(chunks)
        self.lines = [b"half of it"]
        if given and self.refuses:
            self.refuses -= 1
            raise ValueError("not like this")
        super().install_chunks(iter((given,)))


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that misbehaves stays cut off for a moment."""
    defaults = LinkLimits.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "cut_off_us", 100_000)


@pytest.mark.usefixtures("briefly")
def test_a_state_that_a_program_cannot_begin_from_costs_the_parent_its_link_and_is_asked_for_again(
    tmp_path: Path,
) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        choosy = Choosy(REFUSALS_MAX - 1)
        async with tree.open("r", {"g": Chunks()}) as r, tree.open("a") as a:
            await r.multicast(b"before", group="g")
            async with tree.open("b") as b:
                await attached(a, b)
                await b.join_group("g", state=choosy)
                assert choosy.lines == [b"before"]
                await r.multicast(b"after", group="g")
                await until(lambda: choosy.lines == [b"before", b"after"])

    run(test)
    tree.judged()


@pytest.mark.usefixtures("briefly")
def test_a_program_that_can_begin_from_no_state_stops_its_node_with_its_error(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r", {"g": Chunks()}) as r, tree.open("a") as a:
            await r.multicast(b"before", group="g")

            async def join() -> None:
                async with tree.open("b") as b:
                    await attached(a, b)
                    await b.join_group("g", state=Choosy(99))

            with pytest.raises(ApplicationError, match="not like this"):
                await join()
            await r.multicast(b"after", group="g")
            assert edge(a).parent == r.me

    run(test)

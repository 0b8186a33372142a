"""Links of a node that chooses its neighbours: opened when it asks, whichever end has the smaller name."""

import asyncio

import pytest
from support.live_links import ANY, QUICK, Node, World, clock, free_addresses, introduce, run

from thence.runtime.settings import LinkSettings

PACKETS = [b"\x01\x00" + bytes([n]) for n in range(100)]
HASTY = LinkSettings(
    backoff_first_us=5_000, backoff_most_us=50_000, connect_timeout_us=50_000, handshake_timeout_us=50_000
)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def strangers(world: World) -> tuple[Node, Node]:
    """a and b, who know each other and have no link."""
    a, b = await world.node("a", on_demand=True), await world.node("b", on_demand=True)
    introduce(a, b)
    return a, b


def ask(node: Node, peer: str) -> None:
    node.busy = True
    node.links.connect(peer)
    node.busy = False


@pytest.mark.parametrize("asks", ["a", "b"])
def test_either_end_gets_a_link_when_it_asks(loop: str, asks: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        one, other = (a, b) if asks == "a" else (b, a)
        assert not a.heard, "nobody asked"
        ask(one, other.name)
        await world.until(lambda: a.heard and b.heard)
        assert (a.heard, b.heard) == (["up b"], ["up a"])
        one.links.write(other.name, PACKETS)
        await world.until(lambda: len(other.packets) == 100)

    run(test, loop)


def test_both_ends_asking_at_once_get_one_link(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        ask(a, "b")
        ask(b, "a")
        await world.until(lambda: a.heard and b.heard)
        b.links.write("a", PACKETS)
        await world.until(lambda: len(a.packets) == 100)
        assert (a.heard, b.heard) == (["up b"], ["up a"])

    run(test, loop)


@pytest.mark.parametrize("closes", ["a", "b"])
def test_what_was_written_before_a_link_is_given_up_still_arrives(loop: str, closes: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        ask(a, "b")
        await world.until(lambda: a.heard and b.heard)
        one, other = (a, b) if closes == "a" else (b, a)
        one.links.write(other.name, PACKETS)
        one.links.disconnect(other.name)
        await world.until(lambda: len(other.heard) == 2)
        assert len(other.packets) == 100
        assert len(one.heard) == 1, "it knows: it closed it itself"
        assert not one.is_up(other.name)

    run(test, loop)


def test_a_link_that_breaks_is_not_made_again_by_itself(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        ask(a, "b")
        await world.until(lambda: a.heard and b.heard)
        a.links.cut("b")
        a.links.mend("b")
        await world.until(lambda: len(a.heard) == len(b.heard) == 2)
        ask(b, "a")  # had a dialled by itself, there would be two
        await world.until(lambda: len(a.heard) == len(b.heard) == 3)
        assert (a.heard, b.heard) == (["up b", "down b", "up b"], ["up a", "down a", "up a"])

    run(test, loop)


@pytest.mark.parametrize("asks", ["a", "b"])
def test_who_cannot_be_reached_is_told_of_once(loop: str, asks: str) -> None:
    async def test(world: World) -> None:
        [nowhere] = free_addresses(1)
        node = await world.node(asks, on_demand=True)
        peer = "b" if asks == "a" else "a"
        node.links.add_peer(peer, nowhere)
        ask(node, peer)
        await world.until(lambda: node.heard)
        assert node.heard == [f"down {peer}"]
        assert "cannot reach" in node.whys[0]

    run(test, loop)


@pytest.mark.parametrize("asks", ["a", "b"])
@pytest.mark.parametrize("cuts", ["a", "b"])
def test_a_cut_link_is_not_to_be_had(loop: str, asks: str, cuts: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        (a if cuts == "a" else b).links.cut("b" if cuts == "a" else "a")
        one, other = (a, b) if asks == "a" else (b, a)
        ask(one, other.name)
        await world.until(lambda: one.heard)
        assert one.heard == [f"down {other.name}"]
        assert not other.heard

    run(test, loop)


def test_a_call_that_leads_to_nothing_is_given_up(loop: str) -> None:
    """The one that is called answers, and cannot dial back."""

    async def test(world: World) -> None:
        a = await world.node("a", on_demand=True)
        b = await world.node("b", on_demand=True, settings=HASTY)
        a.links.add_peer("b", free_addresses(1)[0])
        b.links.add_peer("a", a.links.address)
        ask(b, "a")
        await world.until(lambda: b.heard)
        assert b.heard == ["down a"]
        assert b.whys == ["it was called and did not dial"]

    run(test, loop)


def test_a_link_that_one_end_has_lost_without_the_others_notice_is_replaced(loop: str) -> None:
    async def test(world: World) -> None:
        at = [clock()]
        a = await world.node("a", on_demand=True, now=lambda: at[0])
        b = await world.node("b", on_demand=True)
        introduce(a, b)
        ask(a, "b")
        await world.until(lambda: a.heard and b.heard)
        link = b.links._peers["a"].link
        b.links._peers["a"].link = None  # as if it had never been
        at[0] += QUICK.handshake_timeout_us  # it is not that one that the call crosses
        ask(b, "a")
        await world.until(lambda: len(a.heard) == 3)
        assert a.heard == ["up b", "down b", "up b"]
        assert link is not None
        link.abort()

    run(test, loop)


def test_nobody_is_called_in_a_group_that_keeps_its_links_up(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.node("a"), await world.node("b", on_demand=True)
        a.links.add_peer("b", ANY)
        b.links.add_peer("a", a.links.address)
        ask(b, "a")
        await world.until(lambda: b.heard)
        assert "nobody need call" in b.whys[0]

    run(test, loop)


def test_nothing_is_told_to_a_node_that_stops(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        ask(a, "b")
        await world.until(lambda: a.heard and b.heard)
        await a.links.close()
        before = list(a.heard)
        a.links.connect("b")
        await asyncio.sleep(0)
        assert a.heard == before

    run(test, loop)

"""The stages of a peer, over real links: each way of the table. That a stage has its parts and no others is
looked at in all tests of links (`support.live_links.World.changed`)."""

from support.live_links import Node, World, free_addresses, run
from support.taken import taken

from thence.runtime.peer import PEER, PeerStage
from thence.runtime.tree_links import TreeLinks


def stage(node: Node, name: str) -> PeerStage | None:
    peer = node.links._peers.get(name)
    return None if peer is None else peer.stage


async def on_demand(world: World) -> None:
    a, b = await world.node("a", on_demand=True), await world.node("b", on_demand=True)
    links, where = a.links, b.links.address
    assert isinstance(links, TreeLinks)
    links.fault("cut", "b", 0)
    assert stage(a, "b") is PeerStage.CUT, "it need not be known yet"
    links.cut("b")
    links.mend("b")
    assert stage(a, "b") is None, "it is forgotten, as there is neither link nor fault"

    links.connect_to("b", where)
    assert stage(a, "b") is PeerStage.DIALLING
    links.cut("b")
    assert stage(a, "b") is PeerStage.CUT
    links.mend("b")
    links.connect_to("b", where)
    links.disconnect("b")
    assert stage(a, "b") is None

    links.connect_to("b", where)
    await world.until(lambda: "up a" in b.heard and "up b" in a.heard)
    assert (stage(a, "b"), stage(b, "a")) == (PeerStage.UP, PeerStage.UP)
    links.disconnect("b")
    assert stage(a, "b") is None
    await world.until(lambda: "down a" in b.heard)

    before = len(a.heard)
    links.connect_to("c", free_addresses(1)[0])
    await world.until(lambda: "down c" in a.heard[before:])


async def in_a_group(world: World) -> None:
    (a, at_a), (b, at_b) = await world.open_node("a"), await world.open_node("b")
    at_a.know("b", at_b.address)
    assert stage(a, "b") is PeerStage.WAITING
    at_a.cut("b")
    at_a.mend("b")
    assert stage(a, "b") is PeerStage.WAITING, "it is dialled again"
    at_a.dismiss("b")
    assert stage(a, "b") is None
    at_a.know("b", at_b.address)
    await world.until(lambda: a.heard and b.heard)
    at_a.cut("b")
    assert stage(a, "b") is PeerStage.CUT
    await world.until(lambda: "down b" in a.heard)
    at_a.mend("b")
    await world.until(lambda: a.heard[-1] == "up b")


def test_all_ways_are_taken() -> None:
    with taken(PEER) as seen:
        run(on_demand)
        run(in_a_group)
    assert set(PEER.rows) <= seen

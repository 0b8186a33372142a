"""Schedules that each rule of docs/protocols/edge.md exists for."""

from collections.abc import Callable

from support.edges import Grove
from support.schedules_edge_past import PASTS
from support.schedules_edge_regions import (
    beyond_invitation,
    beyond_restart,
    beyond_tidy,
    doc62,
    two_regions,
    unseen_leaf,
)
from thence.core.edge import EdgeAttach, EdgeDown, EdgeInvited, EdgeItem, EdgePacket, EdgeStatus

LINE = {"r": "", "a": "r", "b": "a", "c": "b", "x": "r"}
LONG = {"r": "", "a": "r", "b": "a", "c": "b", "d": "c", "x": "r"}
SPREAD = {"g": ["x"], "h": ["c", "x"]}


def _bypass(delta: int) -> None:
    """δ consecutive nodes die for good; what was under way and what comes later passes."""
    parents = {"r": "", "n0": "r"}
    for number in range(1, delta + 2):
        parents[f"n{number}"] = f"n{number - 1}"
    last = f"n{delta + 1}"
    grove = Grove({**parents, "x": "r"}, delta, {"g": [last, "x"]})
    assert len(grove.chain(last)) == delta + 1, "chain: too short"
    grove.send(last, "g")
    grove.die(*[f"n{number}" for number in range(1, delta + 1)])
    grove.send(last, "g")
    grove.run(1500)
    assert grove.got("x", "g") == [(last, 1), (last, 2)], "late: not there"
    grove.send("x", "g")
    grove.finish()
    assert grove.node(last).tree.parent.who == "n0", "parent: not the nearest that lives"


def bypass1() -> None:
    _bypass(1)


def bypass2() -> None:
    _bypass(2)


def bypass3() -> None:
    _bypass(3)


def gate_born() -> None:
    """b's m does not get up, and m' after it must not reach c, who could take it past b."""
    grove = Grove(LINE, 1, SPREAD)
    grove.hold(("b", "a"))
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(200)
    assert grove.got("c", "h") == [], "order: through the gate"
    grove.crash("b")
    grove.run(2000)
    grove.send("c", "h")
    grove.run(500)
    grove.finish()
    assert len(grove.got("x", "h")) == 2, "lost: something"


def gate_depth() -> None:
    """δ = 2: m is known one node up, and not two."""
    grove = Grove(LONG, 2, {"g": ["x"], "h": ["d", "x"]})
    grove.hold(("b", "a"))
    grove.send("c", "g")
    grove.send("c", "h")
    grove.run(200)
    assert grove.got("d", "h") == [], "order: through the gate"
    grove.crash("c", "b")
    grove.run(2000)
    grove.finish()


def gate_above() -> None:
    """m comes to c from above, and d does not get it: it counts all the same."""
    grove = Grove({**LONG, "e": "c"}, 2, {"g": ["x", "e", "c"], "h": ["d", "x"]})
    grove.hold(("b", "a"))
    grove.send("b", "g")
    grove.run(200)
    grove.send("c", "h")
    grove.run(200)
    assert grove.got("d", "h") == [], "order: through the gate"
    grove.crash("c", "b")
    grove.run(2000)
    grove.finish()


def gate_opens() -> None:
    """Nothing waits once the chain has what a child does not get."""
    grove = Grove(LONG, 3, {"g": ["x"], "h": ["d", "x"]})
    for _ in range(5):
        grove.send("c", "g")
        grove.send("c", "h")
        grove.run(20)
    grove.run(400)
    assert len(grove.got("d", "h")) == 5, "late: the gate stays shut"
    grove.finish()


def contrib_above() -> None:
    """c has a message from b that b could not send up; with b gone c brings it."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.hold(("b", "a"))
    grove.send("b", "g")
    grove.run(100)
    assert grove.got("c", "g") == [("b", 1)], "held: nothing is before it"
    grove.die("b")
    grove.run(2000)
    assert grove.got("x", "g") == [("b", 1)], "lost: c had it"
    grove.finish()


def trim_root() -> None:
    """The parent has it and the root does not: the log keeps it, and parent and grandparent die."""
    grove = Grove(LINE, 2, {"g": ["c", "x"]})
    grove.hold(("a", "r"))
    grove.send("c", "g")
    grove.run(300)
    grove.die("b", "a")
    grove.run(2000)
    assert grove.got("x", "g") == [("c", 1)], "lost: forgotten too early"
    grove.finish()


def zombie() -> None:
    """b is taken for dead and is not: what it still sends is there already."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.hold(("b", "a"), ("b", "c"))
    grove.send("c", "g")
    grove.run(1000)
    grove.send("c", "g")
    grove.run(300)
    grove.finish()
    assert grove.got("x", "g") == [("c", 1), ("c", 2)], "lost: something"


def session_loss() -> None:
    """A packet is lost in a session: the session ends, and nothing is missing."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.hold(("c", "b"))
    grove.send("c", "g")
    grove.run(10)
    grove.lose(("c", "b"))
    grove.send("c", "g")
    grove.finish()
    assert grove.got("x", "g") == [("c", 1), ("c", 2)], "lost: something"


def return_log() -> None:
    """A node is away for less than logs are kept: it needs no state."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]}, keep_us=60_000_000)
    grove.crash("c")
    for _ in range(3):
        grove.send("x", "g")
    grove.run(1000)
    grove.finish()
    assert len(grove.got("c", "g")) == 3, "lost: something"


def return_snap() -> None:
    """It is away for longer: a state stands in for what was trimmed."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.send("x", "g")
    grove.run(500)
    grove.crash("c")
    for _ in range(3):
        grove.send("x", "g")
        grove.run(400)
    grove.run(2000)
    grove.finish()
    assert len(grove.got("c", "g")) == 4, "lost: something"


def snap_merge() -> None:
    """What a node published while it was away is not lost by the state that it gets."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.world.cut |= {("b", "c"), ("c", "b"), ("a", "c"), ("c", "a")}
    grove.run(1000)
    grove.send("c", "g")
    for _ in range(3):
        grove.send("x", "g")
        grove.run(400)
    grove.run(2000)
    grove.send("c", "g")
    grove.world.cut.clear()
    grove.finish()
    assert len(grove.got("c", "g")) == 5, "lost: something"
    assert len(grove.got("x", "g")) == 5, "lost: something"


def snap_subtree() -> None:
    """A subtree was cut off together: each node of it asks for itself."""
    grove = Grove(LONG, 1, {"g": ["c", "d", "x"]})
    grove.world.cut |= {(one, other) for one in "ra" for other in "bcd"}
    grove.world.cut |= {(other, one) for one, other in grove.world.cut}
    for _ in range(3):
        grove.send("x", "g")
        grove.run(400)
    grove.run(2000)
    grove.world.cut.clear()
    grove.finish()
    assert len(grove.got("d", "g")) == 3, "lost: something"


def join_state() -> None:
    """A node joins while messages are on their way: none is missed, none comes twice."""
    grove = Grove(LINE, 1, {"g": ["x"]})
    for _ in range(3):
        grove.send("x", "g")
    grove.world.join("c", "g")
    for _ in range(10):
        grove.run(7)
        grove.send("x", "g")
    grove.finish()
    assert len(grove.got("c", "g")) == 13, "lost: something"


def join_crash() -> None:
    """The parent crashes with the request: it is made again."""
    grove = Grove(LINE, 1, {"g": ["x"]})
    grove.hold(("b", "a"))
    grove.world.join("c", "g")
    grove.run(50)
    grove.crash("b")
    grove.send("x", "g")
    grove.run(2000)
    assert grove.got("c", "g") == [("x", 1)], "joined: never"
    grove.finish()


def leave_rejoin() -> None:
    grove = Grove(LINE, 1, {"g": ["c", "x"], "h": ["c", "x"]})
    grove.world.leave("c", "g")
    for _ in range(4):
        grove.send("x", "g")
        grove.send("x", "h")
        grove.run(15)
    grove.world.join("c", "g")
    grove.send("x", "g")
    grove.finish()
    assert len(grove.got("c", "g")) == 5, "lost: something"


def unwanted() -> None:
    """Items of a group that was left a moment ago still come, and are accepted: the parent counts on it."""
    grove = Grove(LONG, 1, {"g": ["c", "x"], "h": ["c", "d", "x"]})
    grove.hold(("b", "c"))
    grove.send("x", "g")
    grove.send("x", "h")
    grove.run(100)
    grove.world.leave("c", "g")
    grove.run(600)
    grove.release(("b", "c"))
    grove.run(100)
    grove.finish()


def vol() -> None:
    """What a node published and could not send is in its log after a crash."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.hold(("c", "b"))
    grove.send("c", "g")
    grove.run(20)
    grove.crash("c")
    grove.finish()
    assert grove.got("x", "g") == [("c", 1)], "lost: forgotten in a crash"


def fresh() -> None:
    """A process that has lost its disk is another identity: no number is used twice."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.send("c", "g")
    grove.run(300)
    grove.world.lose_disk("c")
    grove.world.boot("c")
    grove.run(1000)
    grove.send("c", "g")
    grove.finish()
    assert grove.got("x", "g") == [("c", 1), ("c~2", 1)], "lost: something"


def newnode() -> None:
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    grove.send("x", "g")
    grove.world.add("y", "c")
    grove.world.boot("y")
    grove.world.join("y", "g")
    grove.run(100)
    grove.send("x", "g")
    grove.finish()
    assert len(grove.got("y", "g")) == 2, "lost: something"


def beyond_wait() -> None:
    """All of the chain is gone, and something from above may not be at the root: the orphan waits."""
    grove = Grove(LONG, 1, {"g": ["x"], "h": ["c", "d", "x"]})
    grove.hold(("a", "r"))
    grove.send("b", "g")
    grove.run(200)
    grove.send("b", "h")
    grove.run(200)
    assert grove.got("d", "h") == [("b", 2)], "held: its chain has what is before it"
    grove.crash("c", "b", "a")
    grove.run(3000)
    grove.send("d", "h")
    grove.run(500)
    assert grove.node("d").tree.parent is None, "attached: to a root that lacks a cause"
    grove.finish()


def beyond_root() -> None:
    """The same with everything at the root: the root takes it in."""
    grove = Grove(LONG, 1, {"g": ["d", "x"]})
    grove.send("x", "g")
    grove.run(500)
    grove.die("c", "b")
    grove.run(3000)
    assert grove.node("d").tree.parent.who == "r", "restless: not attached to the root"
    grove.send("d", "g")
    grove.finish()


def partition() -> None:
    """A subtree that is cut off goes on by itself, after its nodes were told what they depend on."""
    grove = Grove(LINE, 1, {"g": ["x"], "h": ["c", "x"]}, alone_us=1_000_000)
    grove.world.cut |= {("a", "b"), ("b", "a"), ("r", "b"), ("b", "r")}
    grove.run(600)
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(200)
    assert grove.got("c", "h") == [], "order: through the gate"
    grove.run(1500)
    assert grove.got("c", "h") == [("b", 2)], "late: the subtree does not go on"
    assert grove.chain("c") == ("b",), "chain: not told"
    grove.crash("b")
    grove.run(3000)
    grove.send("c", "h")
    grove.run(500)
    grove.world.cut.clear()
    grove.finish()


def chain_moved() -> None:
    """A node that moves cuts the chains of its children to what is still above it."""
    grove = Grove(LONG, 2, {"g": ["d", "x"]})
    assert grove.chain("d") == ("c", "b", "a"), "chain: not whole"
    grove.die("b")
    grove.run(3000)
    assert grove.chain("d") == ("c", "a", "r"), "chain: not what is above"
    grove.finish()


def chain_load() -> None:
    """A chain that was cut becomes whole again under load."""
    grove = Grove(LONG, 2, {"g": ["x", "b"], "h": ["d", "x"]})
    grove.die("b")
    for _ in range(300):
        grove.send("c", "g")
        grove.send("c", "h")
        grove.run(7)
    assert grove.chain("d") == ("c", "a", "r"), "chain: never whole under load"
    grove.finish()


def chain_regrown() -> None:
    """A subtree that went on by itself is attached again, and its chains become whole under load."""
    grove = _alone()
    for number in range(250):
        if number == 50:
            grove.world.cut.clear()
        grove.send("b", "g")
        grove.send("b", "h")
        grove.run(7)
    assert len(grove.chain("c")) == 2, "chain: never whole under load"
    grove.finish()


def snap_gate() -> None:
    """A state does not go down before all that is in it is known above: a child could not send it up."""
    grove = Grove(LINE, 1, {"g": ["b", "x"]})
    grove.hold(("b", "a"))
    grove.send("b", "g")
    grove.run(50)
    grove.world.join("c", "g")
    grove.run(300)
    assert grove.got("c", "g") == [], "order: through the gate"
    grove.die("b")
    grove.run(2000)
    grove.finish()


def snap_extend() -> None:
    """A state that was sent to a child counts when its chain is to grow."""
    grove = Grove(LINE, 1, {"g": ["b", "x"]}, alone_us=1_000_000)
    grove.world.cut |= {("a", "b"), ("b", "a"), ("r", "b"), ("b", "r")}
    grove.run(2500)
    grove.send("b", "g")
    grove.world.join("c", "g")
    grove.run(200)
    assert grove.got("c", "g") == [("b", 1)], "late: the subtree does not go on"
    _not_past_b(grove)


def _alone() -> Grove:
    """b and c were cut off and went on: c has what follows from b's m, and not m."""
    grove = Grove(LINE, 1, SPREAD, alone_us=1_000_000)
    grove.world.cut |= {("a", "b"), ("b", "a"), ("r", "b"), ("b", "r")}
    grove.run(2500)
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(200)
    assert grove.got("c", "h") == [("b", 2)], "late: the subtree does not go on"
    return grove


def _not_past_b(grove: Grove) -> None:
    """b is back below a and has not got m up when it goes down: c may not go on without it."""
    grove.hold_session(("b", "a"), ("b", "r"))
    grove.world.cut.clear()
    grove.until(lambda: grove.node("b").tree.parent is not None)
    grove.run(300)
    assert grove.chain("c") == ("b",), "chain: over what was passed over"
    grove.crash("b")
    grove.run(3000)
    grove.finish()


def chain_extend() -> None:
    _not_past_b(_alone())


def window() -> None:
    """The same with another session of c: what counts is where the log ended at its attachment."""
    grove = _alone()
    grove.crash("c")
    grove.world.boot("c")
    grove.until(lambda: grove.node("c").tree.parent is not None)
    _not_past_b(grove)


def chain_inband() -> None:
    """A child hears of its shorter chain before anything that was let go without the rest of it."""
    grove = Grove(LINE, 1, SPREAD, alone_us=1_000_000)
    heard: list[object] = []

    def watch(sender: str, receiver: str, packet: EdgePacket) -> None:
        if (sender, receiver) == ("b", "c") and isinstance(packet, EdgeDown):
            heard.extend(packet.bodies)

    grove.world.cut |= {("a", "b"), ("b", "a"), ("r", "b"), ("b", "r")}
    grove.run(600)
    grove.watch = watch
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(2000)
    chains = [body.chain if isinstance(body, EdgeStatus) else type(body) for body in heard]
    assert chains.index(("b",)) < chains.index(EdgeItem), "chain: told after an item"
    grove.world.cut.clear()
    grove.finish()


def _uncovered(members: dict[str, list[str]]) -> Grove:
    """c was away for longer than logs are kept, and asks for a full state at this moment."""
    grove = Grove({**LINE, "e": "b"}, 2, members)
    grove.world.cut |= {(one, "c") for one in "rab"} | {("c", one) for one in "rab"}
    grove.run(1000)
    for _ in range(3):
        grove.send("x", "g")
        grove.run(400)
    grove.run(1000)
    grove.world.cut -= {("b", "c"), ("c", "b")}
    return grove


def full_trim() -> None:
    """What a node publishes while its state is on the way is not in that state, and stays."""
    grove = _uncovered({"g": ["c", "x"], "k": ["e", "x"]})
    while not grove.node("c").tree.full_request:
        grove.send("e", "k")
        grove.run(1)
    for number in range(120):
        if number < 80 and not number % 3:
            grove.send("c", "g")
        grove.send("e", "k")
        grove.run(1)
    grove.finish()
    assert len(grove.got("x", "g")) == 30, "lost: something"


def sync_hold() -> None:
    """What comes from below while a child waits for a full state is kept for it, and follows the state."""
    grove = _uncovered({"g": ["c", "x", "e"]})
    grove.until(lambda: grove.node("c").tree.full_request > 0)
    for _ in range(20):
        grove.send("e", "g")
        grove.run(3)
    grove.finish()
    assert len(grove.got("c", "g")) == 23, "lost: something"


def full_rejoin() -> None:
    """A group that is left and joined again while a full state is due is not in that state."""
    grove = _uncovered({"g": ["c", "x", "e"], "h": ["c", "x"]})
    grove.hold_session(("b", "c"))
    grove.until(lambda: grove.node("c").tree.full_request > 0)
    grove.run(80)
    grove.world.leave("c", "g")
    grove.run(60)
    grove.send("x", "g")
    grove.run(60)
    grove.world.join("c", "g")
    grove.release(("b", "c"))
    for _ in range(20):
        grove.run(3)
        grove.send("x", "g")
    grove.finish()
    assert len(grove.got("c", "g")) == 24, "lost: something"


def join_below() -> None:
    """A message from below that is behind the request comes to the joiner before the state, and counts."""
    grove = Grove({**LINE, "e": "b"}, 1, {"g": ["e", "x"]})
    grove.world.join("c", "g")
    for _ in range(12):
        grove.run(3)
        grove.send("e", "g")
    grove.finish()
    assert len(grove.got("c", "g")) == 12, "lost: something"


def unwanted_cause() -> None:
    """m is on its way to c when c leaves m's group: c takes it along, since m' follows."""
    grove = Grove(LINE, 1, {"g": ["c", "x"], "h": ["c", "x"]}, linger_us=0)
    grove.hold(("b", "a"), ("b", "c"))
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(30)
    grove.world.leave("c", "g")
    grove.release(("b", "c"))
    grove.run(50)
    assert grove.got("c", "h") == [("b", 2)], "late: not there"
    grove.crash("b")
    grove.run(3000)
    grove.finish()


def rehome_stale() -> None:
    """An invitation from before is not followed: the host may lack what the guest has got since."""
    grove = Grove({**LINE, "e": "a"}, 1, {"g": ["e", "x"], "h": ["c", "e", "x"]})
    grove.die("b")
    grove.run(2000)
    grove.hold(("e", "c"))
    grove.world.rehome("c", "e")
    grove.until(lambda: grove.node("c").tree.parent is None)
    grove.until(lambda: grove.node("c").tree.parent is not None)
    grove.hold(("a", "e"), ("r", "e"))
    grove.send("x", "g")
    grove.send("x", "h")
    grove.run(300)
    assert grove.got("c", "h") == [("x", 2)], "late: not there"
    grove.crash("a")
    grove.until(lambda: grove.node("c").tree.parent is None)
    grove.world.call("c", lambda node: node.receive("e", EdgeInvited("e", 3), grove.world.now))
    grove.run(100)
    parent = grove.node("c").tree.target or ("",)
    assert parent[0] != "e", "order: follows an old invitation"
    grove.finish()


def rehome() -> None:
    """A node whose parent died is below its grandparent, and moves below a sibling."""
    grove = Grove({**LINE, "e": "a"}, 1, {"g": ["c", "x", "e"]})
    grove.die("b")
    grove.run(2000)
    assert grove.node("c").tree.parent.who == "a", "parent: not the grandparent"
    grove.world.rehome("c", "e")
    grove.send("x", "g")
    grove.run(2000)
    assert grove.node("c").tree.parent.who == "e", "parent: has not moved"
    grove.send("c", "g")
    grove.finish()


def full_then_join() -> None:
    """c comes back after long, asks for a full state of g, which comes from the root, and joins h, of which b
    has a state that lacks m. Were both asked for at once, c would have m' of the full state, and not its
    cause m."""
    grove = Grove(LINE, 1, {"g": ["c", "x"], "h": ["b", "x"]}, suspect_us=60_000_000, drop_us=60_000_000)
    grove.world.crash("c")
    grove.run(3000)
    assert "g" not in grove.node("b").book.covered, "kept: b still covers g"
    grove.hold_session(("a", "b"))
    grove.send("x", "h")
    grove.run(50)
    grove.send("x", "g")
    grove.run(100)
    grove.world.boot("c")
    grove.until(lambda: grove.node("c").tree.parent is not None)
    grove.world.join("c", "h")
    grove.run(200)
    grove.send("b", "g")
    grove.run(100)
    grove.release(("a", "b"))
    grove.run(500)
    grove.finish()
    assert len(grove.got("c", "h")) == 1, "lost: the cause"


def invite_inband() -> None:
    """x has seen e0, which m is the cause of; a has neither yet, since its window is full. An invitation that
    overtook both would let x bring a what follows from them."""
    parents = {"r": "", "a": "r", "b": "r", "x": "b"}
    members = {"g": ["a"], "h": ["a", "x"]}
    grove = Grove(parents, 1, members, suspect_us=60_000_000, drop_us=60_000_000, window=4)
    grove.die("b")
    grove.until(lambda: grove.node("x").tree.parent is not None and grove.node("x").tree.parent.who == "r")
    grove.run(300)
    grove.hold_session(("a", "r"))
    for _ in range(8):
        grove.send("r", "g")
        grove.run(20)
    grove.send("r", "h")
    grove.run(100)
    assert len(grove.got("x", "h")) == 1, "late: x has not seen e0"
    assert grove.got("a", "h") == [], "window: a has it already"
    grove.world.rehome("x", "a")
    grove.run(150)
    grove.send("x", "h")
    grove.run(200)
    grove.release(("a", "r"))
    grove.run(2000)
    grove.finish()


def leave_tree() -> None:
    """A node that leaves takes nothing with it."""
    grove = Grove(LINE, 1, {"g": ["b", "c", "x"]})
    grove.hold(("a", "r"))
    grove.send("b", "g")
    grove.run(50)
    grove.world.leave_tree("b")
    grove.run(300)
    assert not grove.has_left("b"), "left: with a message that the root lacks"
    grove.release(("a", "r"))
    grove.run(2000)
    assert grove.has_left("b"), "left: never"
    grove.send("c", "g")
    grove.finish()
    assert len(grove.got("x", "g")) == 2, "lost: something"


def rank() -> None:
    """No node takes in one that is not below it."""
    grove = Grove(LINE, 1, {"g": ["c", "x"]})
    attach = EdgeAttach("b", "c", 99, grove.node("b").book.rank, (), (), (), ())
    grove.world.call("c", lambda node: node.receive("b", attach, grove.world.now))
    assert "b" not in grove.node("c").tree.children, "cycle: b below c"
    grove.finish()


EDGES: dict[str, Callable[[], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        bypass1, bypass2, bypass3, gate_born, gate_depth, gate_above, gate_opens, contrib_above,
        trim_root, zombie, session_loss, return_log, return_snap, snap_merge, snap_subtree, join_state,
        join_crash, leave_rejoin, unwanted, vol, fresh, newnode, beyond_wait, beyond_root, partition,
        chain_moved, snap_gate, snap_extend, chain_load, chain_regrown, chain_extend, window,
        chain_inband, full_trim, full_rejoin, sync_hold, join_below, unwanted_cause, rehome, rehome_stale,
        full_then_join, invite_inband, leave_tree, rank, doc62, two_regions, unseen_leaf,
        beyond_restart, beyond_tidy, beyond_invitation, *PASTS,
    )
}  # fmt: skip

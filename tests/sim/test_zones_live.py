"""Processes of a topology as they ship, in a world of steps: storms, and single stories, judged by traces."""

from collections import Counter
from itertools import count
from random import Random

import pytest
from support.lies import LyingMember

from thence.check import judge
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, UsageError
from thence.core.message import Message
from thence.core.zones import HOP, ZoneHave, ZoneItems
from thence.order.topology import Topology
from thence.order.zones_text import topology_of
from thence.replica import steps
from thence.replica.zone import ZoneMachine, ZoneSettings, directed
from thence.replica.zone_journal import Came, Own, OwnRun
from thence.sim import zones_live
from thence.sim.air import Air
from thence.sim.zones_live import ZoneWorld
from thence.sim.zones_storm import ZoneStorm, draw_zones

MS, SECOND = 1_000, 1_000_000

TWO_ZONES = b"""
[zones]
office = ["a", "b"]
plant = ["c", "d"]
[routers]
r1 = ["office", "plant"]
r2 = ["office", "plant"]
"""


def two_zones() -> Topology:
    return topology_of(TWO_ZONES, "two.toml")


def world(settings: ZoneSettings | None = None, take_us: int = 0) -> ZoneWorld:
    made = ZoneWorld(1, two_zones(), Air(links=True), settings or ZoneSettings(suspect_us=SECOND), take_us)
    for name in made.names:
        made.boot(name)
    made.run(SECOND)
    return made


def machine(made: ZoneWorld, name: str) -> ZoneMachine:
    node = made.processes[name].node
    assert node is not None
    return node


def talk(made: ZoneWorld, until_us: int, every_us: int = 20 * MS) -> None:
    """All applications write to each other across the zones."""
    to = {"a": ["c", "d"], "b": ["a", "d"], "c": ["a"], "d": ["b", "c"]}
    turn = count()

    def send() -> None:
        name = "abcd"[next(turn) % 4]
        made.send(name, to[name])
        if made.now < until_us:
            made.at(made.now + every_us, send)

    made.at(made.now, send)


def settles(made: ZoneWorld, within_us: int = 60 * SECOND) -> None:
    made.run(made.now + within_us, lambda: not made.unsettled())
    made.run(made.now + SECOND)
    assert not made.problem
    assert made.unsettled() == ""
    made.close_diaries()
    [verdict] = judge(made.events())
    assert verdict.ok, verdict
    assert verdict.deliveries > 50


@pytest.mark.parametrize("seed", [*range(12), 24, 36, 68, 69, 126, 1054, 1170, *range(100_000, 100_006)])
def test_a_storm_ends_well(seed: int) -> None:
    storm = ZoneStorm(seed, draw_zones(seed))
    assert storm() == ""
    [verdict] = judge(storm.world.events())
    assert verdict.ok, verdict
    assert verdict.deliveries > 0


def test_a_witness_takes_over_when_the_active_gateway_dies_under_load() -> None:
    made = world()
    talk(made, 4 * SECOND)
    made.at(2 * SECOND, lambda: made.die("r1"))
    made.run(5 * SECOND)
    settles(made)
    witness = made.processes["r2"].node
    assert witness is not None
    assert witness.core.active
    assert [made.names[each] for each in witness.core.flushed] == ["r1"]


def test_a_gateway_that_is_started_again_in_time_goes_on_with_its_disk() -> None:
    made = world()
    talk(made, 4 * SECOND)
    made.at(2 * SECOND, lambda: made.crash("r1"))
    made.at(2 * SECOND + 500 * MS, lambda: made.boot("r1"))
    made.run(5 * SECOND)
    settles(made)
    gateway = made.processes["r1"].node
    assert gateway is not None
    assert gateway.core.active
    assert not any(process.node.core.closed for process in made.processes.values() if process.node)


def test_a_gateway_that_comes_back_after_its_death_is_told_and_ends() -> None:
    made = world()
    talk(made, 6 * SECOND)
    made.at(2 * SECOND, lambda: made.crash("r1"))
    made.at(5 * SECOND, lambda: made.boot("r1"))
    made.run(7 * SECOND)
    assert "gone on without it" in made.processes["r1"].ended
    settles(made)
    made.processes["r1"].dead = False
    made.boot("r1")
    assert "cannot go on" in made.processes["r1"].ended  # also at its next start


def test_a_gateway_with_a_link_is_not_closed() -> None:
    made = world()
    talk(made, 5 * SECOND)
    pairs = {pair for other in ("b", "c", "d", "r2") for pair in (("r1", other), (other, "r1"))}
    made.at(2 * SECOND, lambda: made.cut.update(pairs))
    made.run(6 * SECOND)
    assert not any(process.node.core.closed for process in made.processes.values() if process.node)
    made.cut.clear()
    settles(made)


def test_what_a_dead_gateway_had_sent_is_passed_on_to_those_that_lack_it() -> None:
    made = world()
    talk(made, 4 * SECOND)
    made.at(2 * SECOND, lambda: made.cut.update({("r1", "c"), ("c", "r1")}))
    made.at(2500 * MS, lambda: made.die("r1"))
    made.run(5 * SECOND)
    settles(made)


def test_a_witness_forwards_only_what_the_dead_gateway_had_not() -> None:
    made = world()
    talk(made, 4 * SECOND)
    made.at(2 * SECOND, lambda: made.cut.update({("r1", "r2"), ("r2", "r1")}))
    made.at(2500 * MS, lambda: made.die("r1"))
    made.run(5 * SECOND)
    settles(made)


def test_no_process_waits_for_what_only_a_dead_one_had() -> None:
    """What a sends to b does not come through, and is followed by a message to c."""
    made = world(ZoneSettings(suspect_us=0))
    talk(made, 1900 * MS)
    made.run(2 * SECOND)

    def lost(sender: str, receiver: str, packet: object) -> object:
        return None if (sender, receiver) == ("a", "b") and isinstance(packet, ZoneItems) else packet

    made.filter = lost
    made.send("a", ["b"])
    made.send("a", ["c"])
    made.run(2500 * MS)
    made.send("c", ["b", "d"])
    made.run(3 * SECOND)
    made.die("a")
    made.run(4 * SECOND)
    made.evict("b", "a")
    made.run(6 * SECOND)
    settles(made)


def test_a_process_whose_disk_was_lost_ends_and_says_why() -> None:
    made = world()
    talk(made, 2 * SECOND)
    made.run(2 * SECOND)
    made.put_back("a", made._shelf())
    made.boot("a")
    made.run(4 * SECOND)
    assert "its data was lost" in made.processes["a"].ended


def test_a_disk_that_was_put_back_is_found_before_anything_is_sent() -> None:
    made = world(ZoneSettings(suspect_us=SECOND, greet_us=100 * SECOND))
    talk(made, 3 * SECOND)
    made.run(1500 * MS)
    copy = made.processes["r1"].shelf.copy()
    made.run(3500 * MS)
    made.put_back("r1", copy)
    made.boot("r1")
    made.run(4 * SECOND)
    assert "put back" in made.processes["r1"].ended
    settles(made)


def test_a_person_closes_an_application_and_never_the_last_gateway() -> None:
    made = world(ZoneSettings(suspect_us=0))
    talk(made, 3 * SECOND)
    made.run(2 * SECOND)
    made.die("d")
    made.run(3 * SECOND)
    made.evict("c", "d")
    made.run(4 * SECOND)
    settles(made)
    assert "d" not in made.processes["r1"].node.members  # type: ignore[union-attr]
    made.die("r1")
    made.run(made.now + SECOND)
    made.evict("a", "r1")
    made.run(made.now + SECOND)
    node = made.processes["a"].node
    assert node is not None
    with pytest.raises(UsageError, match="last gateway"):
        node.evict("r2", True, made.now)


def test_what_is_written_down_is_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process writes itself down again and again, also between a crash and its return."""
    kept = Counter[str]()

    class Tidy(ZoneMachine):
        def untidy(self, now: int) -> bool:
            return now > SECOND and not self.ended

        def tidy(self, now: int) -> None:
            kept[self.name] += 1
            super().tidy(now)

    monkeypatch.setattr(steps, "TIDY_EVERY_US", 50 * MS)
    monkeypatch.setattr(zones_live, "ZoneMachine", Tidy)
    made = world()
    talk(made, 3 * SECOND, 5 * MS)
    made.at(2 * SECOND, lambda: made.crash("r1"))
    made.at(2 * SECOND + 10 * MS, lambda: made.crash("c"))
    made.at(2300 * MS, lambda: made.boot("r1"))
    made.at(2300 * MS, lambda: made.boot("c"))
    made.run(4 * SECOND)
    settles(made)
    assert min(kept[name] for name in made.names) > 10


def test_a_storm_in_which_logs_are_shortened_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "TIDY_EVERY_US", 300 * MS)
    monkeypatch.setattr(ZoneMachine, "untidy", lambda self, now: now > SECOND and not self.ended)
    for seed in (8, 15):
        storm = ZoneStorm(seed, draw_zones(seed))
        assert storm() == ""
        [verdict] = judge(storm.world.events())
        assert verdict.ok, verdict


def test_words_travel_with_messages_and_say_what_is_news() -> None:
    """R11: where there is traffic no packet is for words alone, and no word repeats an earlier one."""
    made, told = world(), dict[tuple[str, str, int], int]()

    def look(sender: str, receiver: str, packet: object) -> object:
        for dot in getattr(packet, "word", ()):
            place = sender, receiver, dot & ORIGIN_MASK
            assert dot >> ORIGIN_BITS > told.get(place, 0)
            told[place] = dot >> ORIGIN_BITS
        return packet

    made.filter = look
    talk(made, 4 * SECOND, 5 * MS)
    made.run(4 * SECOND)
    assert made.packets["zoneitems"] > 1000
    assert made.packets["zoneword"] <= 10
    assert len(told) > 20
    for _ in range(20):  # the others are silent
        made.send("a", ["b"])
        made.run(made.now + 50 * MS)
    settles(made)


def test_one_to_which_nothing_goes_gets_a_word_by_itself() -> None:
    made = world()
    made.send("a", ["b", "c"])
    made.run(6 * SECOND)
    assert made.delivered()["b"] == made.delivered()["c"] == {("a", 1)}
    histories = {name: process.node.core.history for name, process in made.processes.items() if process.node}
    assert [name for name, history in histories.items() if len(history)] == ["c"]  # b is not near it
    assert 0 < made.packets["zoneword"] < 12


def test_what_a_turn_sends_to_the_same_processes_is_one_message() -> None:
    """At the sender, at gateways and at receivers: one record, one item for each link, one hop."""
    made = world()
    for _ in range(2):  # links have told each other what they have
        made.send("a", ["b", "c", "d"])
        made.run(made.now + 2 * SECOND)
    nodes = [machine(made, name) for name in made.names]
    before = {node.name: (node._life.position, node.core.orderer.delivered) for node in nodes}
    items = list[tuple[str, str, int]]()

    def look(sender: str, receiver: str, packet: object) -> object:
        if isinstance(packet, ZoneItems):
            items.append((sender, receiver, len(packet.items)))
        return packet

    made.filter = look
    made.send("a", ["b", "c", "d"], b"x", count=64)
    made.run(made.now + 100 * MS)  # before words come by themselves
    assert sorted(items) == [
        *[("a", name, 1) for name in ("b", "r1", "r2")], *[("r1", name, 1) for name in ("c", "d", "r2")],
    ]  # fmt: skip
    hops = {node.name: node.core.orderer.delivered - before[node.name][1] for node in nodes}
    assert hops == {"a": 0, "b": 1, "c": 1, "d": 1, "r1": 1, "r2": 2}
    for node in nodes:
        happened = [what for _, what in node._life._journal.happened(before[node.name][0])]
        assert sum([isinstance(what, Own | OwnRun | Came) for what in happened]) == max(1, hops[node.name])
    wanted = {("a", seq) for seq in range(1, 67)}
    assert all(made.delivered()[name] == wanted for name in "bcd")
    settles(made)


def test_messages_to_others_come_between_those_of_a_turn() -> None:
    made, to = world(), (["b", "c"], ["b", "c"], ["d"], ["b", "c"], ["d"], ["d"])
    for _ in range(10):
        made.send_turn("a", [directed(each, b"") for each in to])
        made.run(made.now + 100 * MS)
    assert machine(made, "a").sent == 60
    assert machine(made, "a").core.history.counter == 40
    made.crash("a")
    made.crash("c")
    made.boot("a")
    made.boot("c")
    assert machine(made, "a").sent == 60
    settles(made)
    order = made.processes["c"].application.order
    assert order == [("a", 6 * turn + at) for turn in range(10) for at in (1, 2, 4)]


def test_a_run_is_taken_whole_and_counts_as_what_it_holds() -> None:
    settings = ZoneSettings(inbox_max=8, suspect_us=0)
    made = world(settings, take_us=1000 * SECOND)
    taken = list[int]()
    node = machine(made, "b")
    for size in (3, 4, 5):
        made.send("a", ["b"], count=size)
        made.run(made.now + 100 * MS)
    assert node.waiting == 12
    assert not machine(made, "a").talk.sessions[made.index["b"]].room, "twelve are more than eight"
    taken += [node.take(1, made.now), node.take(4, made.now), node.take(100, made.now)]
    assert taken == [3, 4, 5]
    assert node.waiting == 0


def test_what_waits_for_a_neighbour_is_bounded_in_bytes() -> None:
    made = world(ZoneSettings(suspect_us=0, kept_bytes=1000))
    made.crash("b")
    made.send("a", ["b"], b"x" * 600)
    assert machine(made, "a").refuses is None
    made.send("a", ["b"], b"x" * 600)
    assert "wait for b" in str(machine(made, "a").refuses)
    made.boot("b")
    made.run(made.now + SECOND)
    assert machine(made, "a").refuses is None
    assert all(stream.bytes == 0 for stream in machine(made, "a").core.streams.values())


def test_a_run_that_holds_something_else_than_it_says_costs_the_link() -> None:
    made, items = world(), list[bytes]()

    def look(sender: str, receiver: str, packet: object) -> object:
        if isinstance(packet, ZoneItems) and (sender, receiver) == ("a", "b"):
            items.extend(packet.items)
        return packet

    made.filter = look
    made.send("a", ["b"], b"x", count=3)
    made.run(made.now + SECOND)
    [item] = items
    core, peer = machine(made, "b").core, made.index["a"]
    message = core._codec.decode(item[1:])
    assert isinstance(message, Message)
    assert message.span == 3
    for payload in (message.payload[:-3], message.payload + b"\xa1x", message.payload[:2] + b"xyz"):
        lie = Message(message.dot, message.context, payload, message.dest, 3)
        refused = False
        try:
            core.parse(peer, bytes((HOP,)) + core._codec.encode(lie))
        except PeerError as error:
            refused = "run" in str(error)
        assert refused, payload


def test_another_topology_is_refused() -> None:
    made = world()
    made.crash("a")
    made.topology = topology_of(TWO_ZONES.replace(b'"b"', b'"b", "e"'), "other.toml")
    made.boot("a")
    assert "another topology" in made.processes["a"].ended


def test_what_others_could_wait_for_is_told_and_nothing_else() -> None:
    """Only what left for a process that lacks an earlier hop, which no other process has, is exposed."""
    made = world(ZoneSettings(suspect_us=0))

    def deaf(sender: str, receiver: str, packet: object) -> object:
        return None if isinstance(packet, ZoneHave) else packet

    made.filter = deaf
    for _ in range(3):
        made.send("a", ["b"])
    made.run(made.now + 200 * MS)
    node = machine(made, "a")
    assert node.core.lonely
    assert not node.talk.exposed
    made.cut.update({("a", "b"), ("b", "a")})
    made.send("a", ["b"])
    made.send("a", ["c"])
    made.run(made.now + SECOND)
    assert machine(made, "a").talk.exposed
    made.crash("a")
    made.boot("a")
    assert machine(made, "a").talk.exposed, "what left before is not known yet"
    made.run(made.now + SECOND)
    assert machine(made, "a").talk.exposed
    assert 5 not in machine(made, "a").core.lonely


def test_what_a_neighbour_says_of_its_room_is_taken_when_it_is_said() -> None:
    """While a start waits for greetings, items wait as well; the room told with them is older than what is
    told with an answer that comes after them."""
    made = world(ZoneSettings(greet_us=3 * SECOND, suspect_us=0))
    made.crash("r2")
    made.crash("a")
    made.boot("a")
    made.run(made.now + 200 * MS)
    told: list[ZoneItems] = []

    def full(sender: str, receiver: str, packet: object) -> object:
        if (sender, receiver) != ("b", "a") or not isinstance(packet, ZoneItems):
            return packet
        told.append(packet)
        full_now = packet._replace(room=False)
        return full_now if len(told) == 1 else ZoneHave(packet.have, packet.floor, True)

    made.filter = full
    for _ in range(2):
        made.send("b", ["a"])
        made.run(made.now + 200 * MS)
    assert len(told) == 2
    assert machine(made, "a").talk.waits
    made.run(made.now + 4 * SECOND)
    made.send("a", ["b"])
    made.run(made.now + SECOND)
    assert ("a", 1) in made.delivered()["b"]


@pytest.mark.parametrize("seed", range(6))
def test_a_process_that_lies_breaks_no_other(seed: int) -> None:
    """What it says is believed or costs it its link. A process that is told that it was closed ends, and says
    why."""
    made, random = world(), Random(seed)
    liar = made.names[seed % len(made.names)]
    lies = LyingMember(made, liar, random, [*made.names, "y", ""])
    talk(made, made.now + 5 * SECOND)
    for _ in range(10):
        made.run(made.now + SECOND)
        if random.random() < 0.3:
            name = random.choice(made.names)
            made.crash(name)
            made.boot(name)
    assert lies.lies > 0
    assert not made.problem
    for name, process in made.processes.items():
        assert process.node is not None or process.ended, name
    for name in made.names:
        made.crash(name)
        made.boot(name)
        assert made.processes[name].node is not None or made.processes[name].ended

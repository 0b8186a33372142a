"""The causal separators document: its examples and claims, and what fails as printed.

Each finding is shown by a pair: the rules as printed fail, and with the mend, or in our own code, they hold.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest
from support.chains import Chains
from support.conformance_separators import (
    DELIVERIES_CHECKS,
    HISTORY_CHECKS,
    PAIR,
    SEPARATOR,
    SEPARATOR_CHECKS,
    TWO_ZONES,
    A,
    B,
    C,
    D,
    E,
    F,
    S,
    T,
)
from support.hops_world import HopWorld, Mended, campaign
from support.literal_separators import ALL, Mend, Printed

from thence.core.errors import UsageError
from thence.core.machine import Forward, OrderEffect
from thence.core.message import Message
from thence.order import deliveries, history, separator
from thence.order.history import RULES, Noted, SeparatorCut
from thence.order.hops import Hop
from thence.order.labels import Contexts, Labels
from thence.order.separator import GatewayOrderer, SeparatorOrderer, SeparatorTagger
from thence.order.topology import flat
from thence.sim.topologies import of_names


@pytest.mark.parametrize("check", HISTORY_CHECKS)
def test_histories(check: str) -> None:
    HISTORY_CHECKS[check](history)


@pytest.mark.parametrize("check", DELIVERIES_CHECKS)
def test_deliveries(check: str) -> None:
    DELIVERIES_CHECKS[check](deliveries)


@pytest.mark.parametrize("check", SEPARATOR_CHECKS)
def test_chains(check: str) -> None:
    SEPARATOR_CHECKS[check](separator)


def printed(*lacking: Mend, **given: Any) -> HopWorld:
    return HopWorld(lambda me: Printed(me, mends=ALL - {*lacking}, **given))


def ours(rules: str = "1-11", separators: Any = ()) -> HopWorld:
    return HopWorld(lambda me: Mended(me, separators, RULES[rules]))


P1, P2, P3 = 1, 2, 3


@pytest.mark.parametrize("make", [lambda me: Printed(me), lambda me: Mended(me, rules=RULES["1-8"])])
def test_the_example_of_figure_4_1(make: Any) -> None:
    """P1 sends a to P2 and P3, P3 sends b and c to P2: c waits for b, and b for a."""
    run = HopWorld(make)
    a = run.send(P1, P2, P3)
    run.bring(a, P3)
    told = run[P3].C[a.uid] if isinstance(run[P3], Printed) else next(e.told for _, e in run[P3].history)
    assert told == {P1, P3}
    b = run.send(P3, P2)
    assert a.uid in b.H
    known = run[P3].H if isinstance(run[P3], Printed) else [hop for hop, _ in run[P3].history]
    assert len(known) == 1, "R8: a is told to everyone"
    c = run.send(P3, P2)
    assert [*c.H] == [b.uid]
    assert run.bring(c, P2) == run.bring(b, P2) == []
    assert run.bring(a, P2) == [a.uid, b.uid, c.uid]


def other_sender(run: HopWorld) -> list[tuple[int, int]]:
    run.pass_on(B, C)
    n = run.send(A, C, D)
    run.bring(n, D)
    return run.bring(run.send(D, C), C)


def test_s1_a_counter_of_another_sender_is_taken_for_the_missing_one() -> None:
    assert other_sender(printed(Mend.SAME_SENDER)) != []
    assert other_sender(printed()) == other_sender(ours()) == []


def test_s1_at_random() -> None:
    found = [campaign(lambda me, s: Printed(me, s, ALL - {Mend.SAME_SENDER}), seed) for seed in range(20)]
    assert sum(bool(run.early) for run in found) > 15


class Either(GatewayOrderer):
    """As printed: any member forwards, and no other is told; this one those messages that it is given."""

    mine: frozenset[bytes] = frozenset()

    @property
    def active(self) -> bool:
        return True

    def _release(self, hop: Hop, message: Message, effects: list[OrderEffect]) -> None:
        if message.payload not in self.mine:
            self.history.deliver(hop.dot, hop.address, hop.stamp)
            return
        found: list[OrderEffect] = []
        super()._release(hop, message, found)
        members = TWO_ZONES.separators[self._number].members
        effects += [
            Forward(tuple([peer for peer in each.peers if peer not in members]), each.message)
            for each in found
            if isinstance(each, Forward)
        ]


def either(**mine: set[bytes]) -> Chains:
    def orderer(me: int) -> SeparatorOrderer:
        if not TWO_ZONES.is_gateway(me):
            return SeparatorOrderer(me, TWO_ZONES, RULES["1-9"])
        made = Either(me, TWO_ZONES, RULES["1-9"])
        made.mine = frozenset(mine.get(TWO_ZONES.names[me], ()))
        return made

    return Chains(TWO_ZONES, lambda me: SeparatorTagger(me, TWO_ZONES, RULES["1-9"]), orderer)


def test_s2_two_gateways_that_forward_break_the_order_of_messages() -> None:
    """Hops are in order; messages are not, since the hops of two members do not follow each other."""
    run = either(d1={b"1"}, d2={b"2"})
    run.send("a", b"1", "z")
    run.send("a", b"2", "z")
    for gateway in ("d1", "d2"):
        for payload in (b"1", b"2"):
            run.bring(gateway, payload)
    run.bring("z", b"2")
    assert run.got["z"] == [b"2"]
    SEPARATOR_CHECKS["chain order"](separator)


def test_s2_two_gateways_that_both_forward_deliver_twice() -> None:
    run = either(d1={b"1"}, d2={b"1"})
    run.send("a", b"1", "z")
    run.finish()
    assert run.got["z"] == [b"1", b"1"]


def test_s3_a_gateway_that_dies_before_it_forwards_loses_messages() -> None:
    """4.4 knows one failure that endangers; here the separator survives, and the message does not."""
    run = either(d1={b"1"})
    run.send("a", b"1", "z")
    run.bring("d2", b"1")
    run.die("d1")
    run.finish()
    assert run.got["z"] == []
    for check in ("chain crash", "chain crash after", "chain crash early", "chain crash pending"):
        SEPARATOR_CHECKS[check](separator)


J = 9


def witnessed(newcomer: int) -> HopWorld:
    """S = {S, T}. S filters n, since the hop that tells T of it was sent; S dies; another goes on for it."""
    run = ours("1-10", PAIR)
    run.send(A, C)
    x = run.send(A, S, T)
    run.bring(x, S)
    run.pass_on(S, E)
    if newcomer == J:  # as printed: it loads the history of the witness
        run[J].history.merge(run[T].history.snapshot())
        run.known[J] |= run.known[T]
    z = run.send(E, newcomer)
    run.bring(z, newcomer)
    if newcomer == T:
        run.bring(x, T)  # z waits for it there
    run.bring(run.send(newcomer, C), C)
    return run


def test_s4_a_witness_that_was_not_told_yet_cannot_be_loaded_from() -> None:
    assert witnessed(J).early == [(C, (J, 1))]
    assert witnessed(T).early == []


def joined(uses: bool) -> HopWorld:
    """J joins S = {S} with its history; the old member goes on with the old S, or uses the new one."""
    run = ours("1-10", SEPARATOR)
    run[J].history.merge(run[S].history.snapshot())
    if uses:
        ahead, behind = frozenset({E, F}), frozenset({A, B, C})
        run[S].history.use(
            [SeparatorCut(frozenset({J}), ahead, behind), SeparatorCut(frozenset({J}), behind, ahead)]
        )
    run.send(A, C)
    run.pass_on(A, S)
    run.pass_on(S, E)
    run.pass_on(E, J)
    run.bring(run.send(J, C), C)
    return run


def test_s5_old_members_that_filter_with_the_old_separator_are_unsafe() -> None:
    assert joined(uses=False).early == [(C, (J, 1))]
    assert joined(uses=True).early == []


def test_s6_a_message_past_a_separator_is_unsafe_and_refused() -> None:
    run = ours("1-10", SEPARATOR)
    run.send(A, C)
    run.pass_on(A, S)
    run.pass_on(S, E)
    run.bring(run.send(E, C), C)
    assert run.early == [(C, (E, 1))]
    zones = TWO_ZONES
    [z], [a] = [[zones.names.index(name)] for name in "za"]
    message = SeparatorTagger(z, zones, RULES["1-11"]).tag(b"", (a,))
    assert all(zones.is_gateway(process) for process in zones.address(1, (a,), -1, z))
    with pytest.raises(Exception, match="does not come this way"):
        SeparatorOrderer(a, zones, RULES["1-11"]).receive(message, z, 0)


def turns(run: HopWorld) -> int:
    for _ in range(100):
        run.pass_on(S, C)
        run.pass_on(S, B)
    return len(run.send(B, D).H)


def test_s7_histories_grow_for_ever() -> None:
    assert turns(printed(Mend.COVERED)) >= 100
    assert turns(printed()) <= 2
    assert turns(ours()) <= 2


def test_s8_a_message_to_a_process_that_is_never_written_to_again_is_kept_for_ever() -> None:
    run = printed()
    n = run.pass_on(A, C)
    for _ in range(50):
        run.pass_on(A, B)
        run.pass_on(B, A)
    assert n.uid in run[A].H
    HISTORY_CHECKS["quiet"](history)


def filtered(run: HopWorld) -> bool:
    n = run.send(A, C)
    run.pass_on(A, S)
    return n.uid not in run.send(S, E).H


def test_s9_in_the_appendix_the_separator_rule_never_applies() -> None:
    given: dict[str, Any] = {"separators": SEPARATOR, "appendix": True, "rules": (1, 2, 3, 4, 5, 6, 9)}
    assert not filtered(printed(Mend.OTHERS, **given))
    assert filtered(printed(**given))
    assert filtered(ours("1-9", SEPARATOR))


def test_s10_lemma_10_does_not_hold() -> None:
    """E counts as told of n, and no hop to it has n in its history: it is cut off."""
    run = printed(separators=SEPARATOR)
    n = run.send(S, C)
    m = run.send(S, E)
    assert n.uid not in m.H
    assert E in run[S].C[n.uid]
    mended = ours("1-9", SEPARATOR)
    mended.send(S, C)
    mended.send(S, E)
    assert all(E not in entry.told for hop, entry in mended[S].history if hop == (1 << 20 | S))


def copied(run: HopWorld) -> bool:
    n = run.send(A, C, S)
    run.bring(n, S)
    return n.uid not in run.send(S, E).H


def test_s11_a_copy_for_the_separator_itself_keeps_a_message_from_being_filtered() -> None:
    assert not copied(printed(Mend.RESIDUAL, separators=SEPARATOR))
    assert copied(printed(separators=SEPARATOR))
    assert copied(ours("1-10", SEPARATOR))


def answered(run: HopWorld) -> list[tuple[int, int]]:
    n = run.send(A, A, B)
    run.bring(n, B)
    return run.bring(run.send(B, A), A)


def test_s12_in_the_appendix_a_sender_waits_for_its_own_message() -> None:
    given: dict[str, Any] = {"appendix": True, "rules": (1, 2, 3, 4, 5)}
    assert answered(printed(Mend.OWN, **given)) == []
    assert answered(printed(**given)) != []
    assert answered(ours("1-5")) != []


Item = tuple[int, frozenset[int], list[Noted]]


def test_s14_one_delivery_history_for_several_orders_is_unsafe() -> None:
    """n and b are of different orders; b was delivered, and stands for n."""
    run = printed()
    n = run.send(A, C, D)
    b = run.send(A, C)
    without = b._replace(H={})  # another order: it follows nothing of this one
    assert run.bring(without, C) == [b.uid]
    run.bring(n, D)
    assert run.bring(run.send(D, C), C) != [], "n is missing"

    processes = {me: Labels[Item](me, RULES["1-8"]) for me in (A, C, D)}

    def deliver(me: int, label: str, hop: int, address: frozenset[int], stamp: list[Noted]) -> list[int]:
        found = []
        processes[me].offer(label, hop, stamp, (hop, address, stamp))
        while (item := processes[me].pop(label)) is not None:
            processes[me].deliver(label, *item)
            found.append(item[0])
        return found

    both, alone = frozenset({C, D}), frozenset({C})
    one = processes[A].send("one", both)
    other = processes[A].send("other", alone)
    assert deliver(C, "other", other[0], alone, other[1]) == [other[0]]
    assert deliver(D, "one", one[0], both, one[1]) == [one[0]]
    answer = processes[D].send("one", alone)
    assert deliver(C, "one", answer[0], alone, answer[1]) == []
    assert deliver(C, "one", one[0], both, one[1]) == [one[0], answer[0]]


class BriefContexts(Contexts[Item]):
    """As printed: R7 leaves out what all addressees were told, whichever history they took it into."""

    def __init__(self, me: int) -> None:
        super().__init__(me, RULES["1-10"])
        object.__setattr__(self, "_rules", replace(self._rules, brief=True))


def test_s16_what_was_told_in_one_history_is_not_known_in_another() -> None:
    assert any(merging(BriefContexts, seed) for seed in range(10))


@pytest.mark.parametrize("seed", range(30))
def test_applications_merge_histories_themselves(seed: int) -> None:
    """Chapter 6: what precedes a message is what is in the history that it was sent with, and no more."""
    assert merging(lambda me: Contexts(me, RULES["1-10"]), seed) == []


def merging(make: Callable[[int], Contexts[Item]], seed: int) -> list[tuple[int, int]]:
    """Hops sent with histories at random, and taken into others; what was delivered before a cause."""
    random = Random(seed)
    size, names = 5, ("x", "y", "z")
    processes = [make(me) for me in range(size)]
    early = []
    pasts: dict[int, set[int]] = {}
    known = {(me, name): set[int]() for me in range(size) for name in names}
    got: list[set[int]] = [set() for _ in range(size)]
    address: dict[int, frozenset[int]] = {}
    flights: list[tuple[int, Item]] = []
    for step in range(400):
        me, name = random.randrange(size), random.choice(names)
        if step < 250 and random.random() < 0.4:
            to = frozenset(random.sample([each for each in range(size) if each != me], random.randint(1, 3)))
            hop, stamp = processes[me].send(name, to)
            pasts[hop], address[hop] = set(known[me, name]), to
            known[me, name].add(hop)
            flights += [(each, (hop, to, stamp)) for each in sorted(to)]
        elif step < 250 and random.random() < 0.1:
            other = random.choice([each for each in names if each != name])
            processes[me].merge(name, other)
            known[me, name] |= known[me, other]
        elif flights:
            to_whom, item = flights.pop(random.randrange(len(flights)))
            process = processes[to_whom]
            process.deliveries.offer(item[0], item[2], item)
            while (ready := process.deliveries.pop()) is not None:
                lacking = [n for n in pasts[ready[0]] if to_whom in address[n] and n not in got[to_whom]]
                if lacking:
                    early.append((to_whom, ready[0]))
                got[to_whom].add(ready[0])
                process.took(name, *ready)
                known[to_whom, name] |= pasts[ready[0]] | {ready[0]}
    while flights:
        to_whom, item = flights.pop()
        processes[to_whom].deliveries.offer(item[0], item[2], item)
        while (ready := processes[to_whom].deliveries.pop()) is not None:
            got[to_whom].add(ready[0])
    assert all(hop in got[each] for hop, to in address.items() for each in to)
    return early


def test_orders_that_are_not_merged_do_not_wait_for_each_other() -> None:
    one, other = Contexts[Item](A, RULES["1-10"]), Contexts[Item](B, RULES["1-10"])
    to = frozenset({B})
    one.send("slow", to)
    hop, stamp = one.send("fast", to)
    other.deliveries.offer(hop, stamp, (hop, to, stamp))
    assert other.deliveries.pop() is not None


def test_rules_without_an_order_of_senders() -> None:
    with pytest.raises(UsageError, match="need R5"):
        history.Rules(fifo=False)


def test_joins() -> None:
    """4.4: (i) an application, (ii) a zone, (iii) a member of a separator, which the old ones use then."""
    zones = flat(3)
    assert zones.admit("n3", 0) == 3
    lan = zones.extend(0, "lan", ["g0"], ["p0", "p1"])
    assert [zones.names[process] for process in zones.zones[lan].members] == ["g0", "p0", "p1"]
    assert zones.address(0, (5, 6), -1, 0) == {4}
    [before] = [cut for cut in zones.cuts(4) if 5 in cut.ahead]
    assert before.others == frozenset()
    assert 0 in before.behind
    joiner = zones.widen(0, "g1")
    assert zones.address(0, (5, 6), -1, 0) == {4, joiner}
    assert all(cut.others == {joiner} for cut in zones.cuts(4))
    assert all(joiner not in cut.ahead and joiner not in cut.behind for cut in zones.cuts(4))
    with pytest.raises(UsageError, match="no gateway joins it"):
        zones.extend(0, "island", [], ["x"])


def taken_over(merges: bool) -> list[bytes]:
    """a writes n to c, which is slow, and m to e, from whose stamp s leaves n out. j joins s, which dies
    before e's answer comes: j forwards it."""
    zones = of_names({"one": ["a", "c", "s", "j"], "two": ["e", "s", "j"]})
    a, c, s, j, e = [zones.names.index(name) for name in "acsje"]
    zones.awaits(j)
    run = Chains(
        zones,
        lambda me: SeparatorTagger(me, zones, RULES["1-10"]),
        lambda me: (GatewayOrderer if zones.is_gateway(me) else SeparatorOrderer)(me, zones, RULES["1-10"]),
    )
    run.send("a", b"n", "c")
    run.send("a", b"m", "e")
    run.bring("s", b"m")
    run.bring("e", b"m")
    for process in (s, a, c, e):
        zones.adopts(process, j, run.counter(process))
    shared = run.orderers[s].adopt()
    run.orderers[j].begin([shared if merges else shared._replace(history=[])])
    run.send("e", b"answer", "c")
    run.die("s")
    run.bring("j", b"answer")
    run.notice("s", "a", "c", "j", "e")
    run.bring("c", b"answer")
    before = [*run.got["c"]]
    run.finish()
    assert {*run.got["c"]} == {b"n", b"answer"}
    return before


def test_s5_a_newcomer_knows_what_its_separator_has_filtered() -> None:
    assert taken_over(merges=False) == [b"answer"]
    assert taken_over(merges=True) == []


class Twins:
    """A process of ours and the printed one, mended, in lockstep."""

    def __init__(self, me: int, rules: str, numbers: Collection[int]) -> None:
        self.ours, self.printed = Mended(me, rules=RULES[rules]), Printed(me, rules=numbers)

    def send(self, address: frozenset[int], /) -> Any:
        sent, twin = self.ours.send(address), self.printed.send(address)
        assert sent.H == twin.H, f"{sent.uid}"
        self.pairs[sent.uid] = twin
        return sent

    def receive(self, sent: Any, /) -> list[Any]:
        found, twins = self.ours.receive(sent), self.printed.receive(self.pairs[sent.uid])
        assert sorted(each.uid for each in found) == sorted(each.uid for each in twins), f"{sent.uid}"
        return found

    pairs: ClassVar[dict[tuple[int, int], Any]] = {}


@pytest.mark.parametrize(
    ("rules", "numbers"),
    [
        ("1-4", range(1, 5)),
        ("1-5", range(1, 6)),
        ("1-7", range(1, 8)),
        ("1-6,8", (1, 2, 3, 4, 5, 6, 8)),
        ("1-8", range(1, 9)),
    ],
)
def test_the_printed_rules_mended_write_the_same_stamps_as_ours(rules: str, numbers: Collection[int]) -> None:
    """And release the same hops at the same arrivals. With R9 claims differ (S10), and so may stamps."""
    for seed in range(15):
        Twins.pairs.clear()
        campaign(lambda me, _: Twins(me, rules, numbers), seed)

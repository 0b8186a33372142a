"""What an eviction does to operations: a carried one keeps its first context, and `Stable` may wait for those
who may still return."""

from collections.abc import Sequence

import pytest
from support.schedules_groups import Play

from thence.core.groups import CARRY, Place
from thence.members.operations import Operation
from thence.replica.group.ledger.payloads import Carried, carry_payload, payload_carry
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Applied
from thence.replica.life_tag import LifeTag
from thence.sim.air import Air


class Told(Play):
    """A world that remembers what programs are told."""

    def __init__(self, names: str, waits: bool = True) -> None:
        self.stable: dict[str, list[Place]] = {name: [] for name in names}
        self.carried: dict[str, list[Operation]] = {name: [] for name in names}
        settings = GroupSettings(stable_waits=waits)
        super().__init__(names, settings, 0, Air(jitter_us=0, links=True, wire=True))
        for name in names:
            self._listen(name)

    def _listen(self, name: str) -> None:
        application = self.processes[name].application
        apply = application.apply

        def applied(one: Applied) -> None:
            if one.carried:
                self.carried[name].append(one.operation)
            apply(one)

        def stable(found: Sequence[LifeTag]) -> None:
            self.stable[name] += [tag.dot for tag in found]

        application.apply, application.stable = applied, stable  # type: ignore[method-assign]

    def loses(self, name: str) -> None:
        """The others go on without it."""
        others = [other for other in self.processes if other != name]
        self.cuts(*[name + other for other in others])
        self.evicts(others[0], name)
        self.passes(3)


def test_a_carried_operation_keeps_the_context_that_it_had_first() -> None:
    play = Told("abc").together("abc")
    play.send("a")
    play.passes(1)
    last = play.processes["a"].node.member.ledger.sent  # type: ignore[union-attr]
    play.cuts("ca", "cb")
    play.send("c", count=2)
    play.send("a")
    play.evicts("a", "c")
    play.passes(3)
    play.heals()
    play.passes(5)
    assert play.ends_well() == ""
    first, second = play.carried["b"]
    assert first.origin == second.origin == "c"
    assert dict(first.context)["a"] == last, "and not what a sent meanwhile"
    assert second.context == (("c", first.seq),)
    assert [one.context for one in play.carried["a"]] == [first.context, second.context]


def test_one_that_is_carried_twice_keeps_the_context_that_it_had_first() -> None:
    play = Told("abcd").together("abcd")
    play.cuts("ca", "cb", "cd")
    play.send("c")
    before = play.processes["c"].node.member.ledger  # type: ignore[union-attr]
    [(dot, data)] = list(before.written(before.held()))[-1:]
    context = before.places(before.read(dot, data).context)
    play.evicts("a", "c")
    play.passes(2)
    play.cut.clear()
    play.cuts("ad", "bd")  # c returns to a and b, and d is where that is not heard of
    play.passes(5)
    play.evicts("a", "d")
    play.passes(3)
    play.heals()
    play.passes(8)
    assert play.ends_well() == ""
    found = [one for name in "abd" for one in play.carried[name] if one.origin == "c"]
    assert found
    assert {one.context for one in found} == {context}


def test_contexts_come_back_as_they_went_and_may_be_absent() -> None:
    bare, told = Operation("x", 4, b"op"), Operation("y", 1, b"", (("x", 4), ("z~2", 9)))
    for operations in ((bare,), (told,), (bare, told), ()):
        for spent in ((), (("p", 1, 2),)):
            carried = Carried(operations, (("x", 1, 2),), ("s",), spent)
            assert payload_carry(bytes((CARRY,)) + carry_payload(carried)) == carried


@pytest.mark.parametrize("restarts", ["", "a", "power"])
def test_stable_waits_for_a_member_that_may_return(restarts: str) -> None:
    play = Told("abc").together("abc")
    play.send("a")
    play.passes(2)
    play.loses("c")
    play.stable["a"].clear()
    play.send("a")
    sent = play.processes["a"].node.member.ledger.sent  # type: ignore[union-attr]
    play.passes(5)
    assert play.processes["a"].node.member.ledger.stable("a") >= sent  # type: ignore[union-attr]
    assert play.stable["a"] == []
    if restarts:
        play.call("a", lambda node: node.checkpoint(play.now))
        play.passes(0.1)
        play.crash("a", power=restarts == "power")
        play.boot("a")
        play.passes(3)
        assert play.stable["a"] == []
    play.heals()
    play.passes(10)
    assert play.me("c") == "c~2"
    assert ("a", sent) in play.stable["a"]
    assert ("a", sent) in play.stable["b"]
    assert play.ends_well() == ""


def test_without_the_setting_it_does_not() -> None:
    play = Told("abc", waits=False).together("abc")
    play.loses("c")
    play.send("a")
    sent = play.processes["a"].node.member.ledger.sent  # type: ignore[union-attr]
    play.passes(5)
    assert ("a", sent) in play.stable["a"]


def test_a_joiner_hears_of_what_was_stable_and_not_told_when_it_came() -> None:
    play = Told("abcd").together("abc")
    play.loses("c")
    play.send("a")
    sent = play.processes["a"].node.member.ledger.sent  # type: ignore[union-attr]
    play.passes(5)
    play.cuts("cd")
    play.join("d")
    play.passes(5)
    assert play.me("d") == "d"
    assert ("a", sent) not in play.stable["d"]
    play.heals()
    play.passes(10)
    assert ("a", sent) in play.stable["d"]
    assert play.ends_well() == ""

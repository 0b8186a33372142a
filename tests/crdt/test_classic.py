"""The classical types, without tags, against what they must show: a function of operations and
happens-before."""

from random import Random
from typing import Any

import pytest

from thence.crdt.classic import LastWriter, ObservedMap, ObservedSet, OpCounter


class Replica:
    def __init__(self) -> None:
        self.clock = 0
        self.count = OpCounter()
        self.register = LastWriter[int]()
        self.set = ObservedSet[str]()
        self.map = ObservedMap[str, int]()
        self.seen: dict[int, None] = {}


@pytest.mark.parametrize("seed", range(40))
def test_replicas_agree_with_the_specification(seed: int) -> None:
    random = Random(seed)
    replicas = [Replica() for _ in range(random.randrange(2, 5))]
    made: list[tuple[str, frozenset[int], int, tuple[Any, ...]]] = []

    def deliver(replica: Replica, number: int) -> None:
        kind, _, time, words = made[number]
        replica.seen[number] = None
        replica.clock = max(replica.clock, time)
        if kind == "count":
            replica.count.effect(*words)
        elif kind == "write":
            replica.register.effect(*words)
        elif kind in ("add", "rem"):
            replica.set.effect(*words)
        elif kind == "put":
            replica.map.put(*words)
        else:
            replica.map.remove(*words)

    def make(at: int) -> None:
        replica = replicas[at]
        time = replica.clock + 1
        name, moment, key = (str(at), len(made)), (time, str(at)), random.choice("xy")
        kind = random.choice(("count", "write", "add", "add", "rem", "put", "put", "drop"))
        words: tuple[Any, ...] = {
            "count": (random.randrange(-3, 5),),
            "write": (moment, len(made)),
            "add": replica.set.add(key, name),
            "rem": replica.set.remove(key),
            "put": (key, name, moment, len(made), replica.map.seen(key)),
            "drop": (key, replica.map.seen(key)),
        }[kind]
        made.append((kind, frozenset(replica.seen), time, words))
        deliver(replica, len(made) - 1)

    def some(replica: Replica) -> bool:
        ready = [n for n, one in enumerate(made) if n not in replica.seen and one[1] <= replica.seen.keys()]
        if ready:
            deliver(replica, random.choice(ready))
        return bool(ready)

    for _ in range(40):
        at = random.randrange(len(replicas))
        make(at) if random.random() < 0.5 else some(replicas[at])
    for replica in replicas:
        while some(replica):
            pass

    def covered(number: int, kinds: tuple[str, ...]) -> bool:
        key = made[number][3][0]
        return any(number in past and kind in kinds and words[0] == key for kind, past, _, words in made)

    adds = {one[3][0] for n, one in enumerate(made) if one[0] == "add" and not covered(n, ("rem",))}
    puts = [n for n, one in enumerate(made) if one[0] == "put" and not covered(n, ("put", "drop"))]
    shown = {key: max((made[n][3][2], n) for n in puts if made[n][3][0] == key)[1]
             for key in {made[n][3][0] for n in puts}}  # fmt: skip
    writes = [one[3] for one in made if one[0] == "write"]
    for replica in replicas:
        assert replica.count.value == sum(one[3][0] for one in made if one[0] == "count")
        assert replica.register.value == (max(writes)[1] if writes else None)
        assert set(replica.set.elements()) == adds
        assert {key: replica.map.get(key) for key in replica.map.keys()} == shown  # noqa: SIM118

"""Random scans of keys that come and go, at two replicas with indexes of different sizes."""

from random import Random
from typing import Any
from unittest.mock import Mock, patch

from thence.store.scan import ScanIndex, stable_hash

WORK, BUCKET, IDLE_MAX, FORGOTTEN = 7, 2, 40, 3
CALLS = 2000
"""Of one scan, at most."""


class Scanned:
    """The keys of one replica, and their index."""

    def __init__(self) -> None:
        self.keys: dict[bytes, object] = {}
        self.index = ScanIndex()

    def add(self, key: bytes) -> None:
        if key not in self.keys:
            self.keys[key] = None
            self.index.add(key)

    def remove(self, key: bytes) -> None:
        if key in self.keys:
            del self.keys[key]
            self.index.remove(key)

    def flush(self, kept: set[bytes]) -> None:
        self.keys = {key: None for key in self.keys if key in kept}
        self.index.clear()


def run(seed: int) -> None:
    small = {"WORK": WORK, "BUCKET": BUCKET, "LONG": 3 * BUCKET, "IDLE_MAX": IDLE_MAX, "FORGOTTEN": FORGOTTEN}
    with patch.dict(_constants(), small):
        _at_two(Random(seed))
        _at_rest(Random(seed))


def _constants() -> dict[str, Any]:
    """Those of the index under test, in which a bug may be planted."""
    return ScanIndex.page.__globals__


def _at_two(random: Random) -> None:
    """All that are there throughout are returned, and nothing that is not there."""
    stay = {b"stay:%d" % number for number in range(random.randrange(60))}
    others = [b"other:%d" % number for number in range(random.choice((5, 20, 150)))]
    replicas = [Scanned(), Scanned()]
    for number, replica in enumerate(replicas):
        for key in random.sample(sorted(stay), len(stay)):
            replica.add(key)
        for key in others[: random.randrange(len(others)) >> number]:
            replica.add(key)
    for _ in range(random.randrange(1, 4)):
        cursor, found, stays = 0, set[bytes](), random.random() < 0.3
        at = replicas[0]
        for _ in range(CALLS):
            at = at if stays else random.choice(replicas)
            following, some = at.index.page(at.keys, cursor, count := random.randrange(1, 20))
            assert at.keys.keys() >= set(some)
            assert len(some) == len(set(some))
            assert all(stable_hash(key) >= cursor for key in some)
            assert following > cursor or not following or not some, "it goes on"
            assert len(at.index._left) * WORK < len(at.keys) + 4 * WORK + count
            found.update(some)
            cursor = following
            if not cursor:
                break
            for replica in replicas:
                _changes(random, replica, stay, others)
        else:
            raise AssertionError("it ends")
        assert stay <= found
    for replica in replicas:
        assert sorted(_all(replica, 5)) == sorted(replica.keys), "each once, where nothing changes"
        assert replica.index._count == len(replica.keys), "each is counted once"


def _changes(random: Random, replica: Scanned, stay: set[bytes], others: list[bytes]) -> None:
    what = random.random()
    for _ in range(random.randrange(2 * IDLE_MAX) if what < 0.05 else random.randrange(6)):
        key = random.choice(others)
        if random.random() < 0.5:
            replica.add(key)
        else:
            replica.remove(key)
    if what > 0.98:
        replica.flush(stay)


def _at_rest(random: Random) -> None:
    """Each key once, in calls that are bounded; all of them in one that asks for so many."""
    replica = Scanned()
    keys = [b"%d" % number for number in range(random.randrange(1, 200))]
    for key in keys:
        replica.add(key)
    assert sorted(_all(replica, random.randrange(1, 9))) == sorted(keys)
    replica.index.clear()
    assert replica.index.page(replica.keys, 0, len(keys))[0] == 0
    for key in keys:
        replica.remove(key)
    assert not any(replica.index._buckets), "what went is not kept"


def _all(replica: Scanned, count: int) -> list[bytes]:
    found, cursor = list[bytes](), 0
    for _ in range(CALLS):
        hashed = Mock(side_effect=stable_hash)
        with patch.dict(_constants(), {"stable_hash": hashed}):
            cursor, some = replica.index.page(replica.keys, cursor, count)
        assert hashed.call_count < count + 2 * WORK, "one call lists so many"
        found += some
        if not cursor:
            return found
    raise AssertionError("it ends")

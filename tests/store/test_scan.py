"""SCAN's index: random scans, and what one call may cost."""

import pytest
from support import scan_world

from thence.runtime.open_store import LocalStores
from thence.store import scan


@pytest.mark.parametrize("seed", range(60))
def test_keys_that_stay_are_returned_whatever_comes_and_goes_and_whichever_replica_is_asked(
    seed: int,
) -> None:
    scan_world.run(seed)


def test_a_scan_of_many_keys_is_begun_in_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WORK", 100)
    store = LocalStores("a")["a"]
    store.run("MSET", *[word for number in range(1000) for word in (f"k{number}", number)])
    cursor, found, empty = b"0", list[bytes](), 0
    while not found or cursor != b"0":
        cursor, keys = store.run("SCAN", cursor)
        empty += not keys
        found += keys
        assert cursor != b"0" or len(set(found)) == 1000
    assert 9 <= empty < 20
    assert len(found) == 1000


def test_a_scan_that_asks_for_all_keys_has_them_at_once() -> None:
    store = LocalStores("a")["a"]
    store.run("MSET", *[word for number in range(10_000) for word in (f"k{number}", number)])
    cursor, found = store.run("SCAN", "0", "COUNT", 10_000)
    assert (cursor, len(set(found))) == (b"0", 10_000)

"""The fake disk keeps what it promises and forgets what it may: a disk that is too kind tests nothing."""

from random import Random

import pytest
from support.disks import a_disk

from thence.core.storage import DiskError
from thence.sim.disk import BLOCK_BYTES, Disk

SEEDS = range(60)


def crashed(seed: int, holes: bool = False) -> Disk:
    """A file of three blocks, synced, and twenty writes after that."""
    disk = a_disk(seed)
    disk.write("f", 0, b"s" * 3 * BLOCK_BYTES)
    disk.sync("f")
    disk.sync_folder()
    for at in range(20):
        disk.write("f", 3 * BLOCK_BYTES + at * 100, b"u" * 100)
    disk.crash(holes)
    return disk


def test_what_was_synced_is_there_after_a_crash() -> None:
    for seed in SEEDS:
        assert crashed(seed, holes=seed % 2 == 0).read("f", 0, 3 * BLOCK_BYTES) == b"s" * 3 * BLOCK_BYTES


def test_of_what_was_not_synced_any_prefix_may_be() -> None:
    tails = [crashed(seed).read("f", 3 * BLOCK_BYTES, 1 << 20) for seed in SEEDS]
    assert len({len(tail) for tail in tails}) > 20
    assert any(len(tail) % 100 for tail in tails), "a write was never torn"
    garbage = [tail for tail in tails if tail.strip(b"u")]
    assert len(garbage) > 10, "never garbage"
    assert all(tail[: (len(tail) - 1) // BLOCK_BYTES * BLOCK_BYTES].strip(b"u") == b"" for tail in tails)


def test_with_holes_a_later_block_may_be_there_and_an_earlier_one_not() -> None:
    tails = [crashed(seed, holes=True).read("f", 3 * BLOCK_BYTES, 1 << 20) for seed in SEEDS]
    assert any(b"\0" * BLOCK_BYTES + b"u" in tail for tail in tails)


def test_a_file_that_the_folder_does_not_know_may_be_gone_though_it_was_synced() -> None:
    def there(seed: int) -> bool:
        disk = a_disk(seed)
        disk.write("f", 0, b"x")
        disk.sync("f")
        disk.crash()
        return disk.names() == ["f"]

    assert {there(seed) for seed in SEEDS} == {True, False}


def test_a_rename_may_be_lost_until_the_folder_is_synced() -> None:
    def found(seed: int, synced: bool) -> tuple[str, ...]:
        disk = a_disk(seed)
        disk.write("old", 0, b"x")
        disk.sync("old")
        disk.sync_folder()
        disk.rename("old", "new")
        if synced:
            disk.sync_folder()
        disk.crash()
        return tuple(disk.names())

    assert {found(seed, True) for seed in SEEDS} == {("new",)}
    assert {("old",), ("new",)} <= {found(seed, False) for seed in SEEDS}


def test_a_removed_file_may_come_back() -> None:
    def found(seed: int) -> int:
        disk = a_disk(seed)
        disk.write("f", 0, b"x")
        disk.sync("f")
        disk.sync_folder()
        disk.remove("f")
        disk.crash()
        return len(disk.names())

    assert {found(seed) for seed in SEEDS} == {0, 1}


def test_a_truncation_may_be_lost() -> None:
    def size(seed: int) -> int:
        disk = a_disk(seed)
        disk.write("f", 0, b"x" * 10)
        disk.sync("f")
        disk.sync_folder()
        disk.truncate("f", 3)
        disk.crash()
        return disk.size("f")

    assert {size(seed) for seed in SEEDS} == {3, 10}


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = Disk(Random(1), capacity=10)
    with pytest.raises(DiskError) as caught:
        disk.write("f", 0, b"x" * 12)
    assert caught.value.full
    assert not caught.value.definite
    assert disk.size("f") == 10
    disk.truncate("f", 4)
    disk.write("f", 4, b"y" * 6)


def test_calls_fail_on_demand_and_once() -> None:
    disk = a_disk()
    disk.fail("sync", after=1)
    disk.write("f", 0, b"x")
    disk.sync("f")
    with pytest.raises(DiskError):
        disk.sync("f")
    disk.sync("f")
    disk.fail("sync")
    disk.heal()
    disk.sync("f")
    with pytest.raises(DiskError, match="no such file"):
        disk.read("g", 0, 1)
    with pytest.raises(DiskError, match="beyond the end"):
        disk.write("f", 5, b"x")


def test_a_flipped_bit_stays_flipped() -> None:
    disk = a_disk()
    disk.write("f", 0, b"abc")
    disk.sync("f")
    disk.sync_folder()
    disk.flip("f", 1, 0)
    disk.crash()
    assert disk.read("f", 0, 3) == b"acc"

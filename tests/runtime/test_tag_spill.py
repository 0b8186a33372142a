"""The file of old tags: the same answers as memory gives, and nothing left behind."""

from pathlib import Path
from random import Random

import pytest

from thence.core.errors import StorageError
from thence.runtime.tag_spill import FILE, FileTagSpill
from thence.sim.attic import MemoryAttic


def rows(first: int, count: int) -> list[tuple[int, int, bytes]]:
    return [(place, 3 * place + 1 << 20, bytes([place & 255]) * 9) for place in range(first, first + count)]


def test_it_answers_as_memory_does(tmp_path: Path) -> None:
    random, file, memory = Random(5), FileTagSpill(tmp_path), MemoryAttic()
    end, base = 0, 0
    for _ in range(300):
        act = random.choice(("put", "put", "of", "run", "forget"))
        if act == "put":
            count = random.randint(1, 20)
            for attic in (file, memory):
                attic.put(rows(end, count))
            end += count
        elif act == "forget":
            base = random.randint(base, end)
            file.forget(base)
            memory.forget(base)
        elif act == "of":
            dot = 3 * random.randint(0, end) + 1 << 20
            assert file.of(dot) == memory.of(dot)
        else:
            first = random.randint(base, end)
            assert file.run(first, 7) == memory.run(first, 7)
    file.close()


def test_an_empty_one_takes_no_space(tmp_path: Path) -> None:
    attic = FileTagSpill(tmp_path)
    assert not (tmp_path / FILE).exists()
    attic.put(rows(0, 100))
    assert (tmp_path / FILE).exists()
    attic.forget(100)
    assert not (tmp_path / FILE).exists()
    attic.put(rows(100, 1))
    assert attic.run(0, 5) == [row[1:] for row in rows(100, 1)]
    attic.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"anything")
    attic = FileTagSpill(tmp_path)
    assert list(tmp_path.iterdir()) == []
    attic.put(rows(0, 1))
    assert attic.of(rows(0, 1)[0][1]) == (0, bytes(9))
    attic.close()


def test_without_room_nothing_is_put_and_nothing_is_lost(tmp_path: Path) -> None:
    attic = FileTagSpill(tmp_path)
    attic.put(rows(0, 50))
    assert attic._database
    pages = attic._database.execute("PRAGMA page_count").fetchone()[0]
    attic._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StorageError, match="old tags cannot be written"):
        attic.put(rows(50, 5000))
    assert attic.run(0, 100) == [row[1:] for row in rows(0, 50)]
    attic._database.execute("PRAGMA max_page_count = 100000")
    attic.put(rows(50, 5000))
    assert len(attic.run(0, 6000)) == 5050
    attic.close()

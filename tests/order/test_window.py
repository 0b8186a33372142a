"""Stories about the window; what it shares with every witness is in `test_witnesses.py`."""

from hypothesis import given
from hypothesis import strategies as st

from thence.core.dots import STEP
from thence.core.message import Message
from thence.order.tags import as_bits, as_places
from thence.order.window import GraphTag, Window
from thence.sim.attic import MemoryAttic


def see(window: Window, dot: int, *context: int) -> GraphTag:
    return window.see(Message(dot, context, b""))


def test_reached_counts_members_and_silent_names_the_others() -> None:
    window = Window(0, 3)
    first = see(window, STEP)
    assert window.reached(first.dot) == 1
    assert window.silent() == [1, 2]
    see(window, STEP + 1, STEP)
    assert window.reached(first.dot) == 2
    assert window.silent() == [2]
    assert window.sweep() == []
    window.heard(2, (STEP,))
    assert window.reached(first.dot) == 3
    assert window.sweep() == [first]
    assert window.silent() == [2], "of member 1's message nothing was heard from member 2"


def test_a_phantom_that_overtakes_messages_is_remembered() -> None:
    """The document drops it, and stability waits for the next one, which may never come."""
    window = Window(0, 2)
    mine = see(window, STEP)
    window.heard(1, (STEP + 1,))
    assert window.sweep() == []
    assert not window.drained
    other = see(window, STEP + 1, STEP)
    assert window.sweep() == [mine, other]
    assert window.drained


def test_newer_phantoms_do_not_put_the_first_off() -> None:
    window = Window(0, 3)
    mine = see(window, STEP)
    window.heard(2, (STEP,))
    window.heard(1, (STEP + 2,))
    for seq in range(3, 50):
        window.heard(1, (STEP * seq + 2,))
    theirs = see(window, STEP + 2, STEP)
    assert window.sweep() == [mine, theirs]
    assert not window.drained, "the newest phantom is still ahead"


def test_what_is_stable_behind_something_older_does_not_count_as_open() -> None:
    """A stable message stays in the window while an older one is open, but it is announced and done."""
    window = Window(2, 3)
    old = see(window, STEP)
    young = see(window, STEP + 1)
    window.heard(0, (STEP, STEP + 1))
    assert window.sweep() == [young], "of the older one its sender is known to know, but not member 1"
    assert len(window) == 1
    see(window, 2 * STEP + 1, STEP, STEP + 1)
    assert window.sweep()[0] is old
    assert len(window) == 1


def test_a_phantom_that_counts_by_now_is_not_displaced_by_the_next() -> None:
    """Between two sweeps: the newest that waited has been caught up with when a newer one comes."""
    window = Window(0, 2)
    theirs = [STEP * seq + 1 for seq in (1, 2, 3)]
    mine = see(window, STEP)
    window.heard(1, (theirs[0],))
    window.heard(1, (STEP, theirs[1]))
    see(window, theirs[0])
    see(window, theirs[1], theirs[0])
    window.heard(1, (STEP, theirs[2]))
    assert mine in window.sweep()


def test_memory_does_not_grow_with_history() -> None:
    window = Window(0, 2)
    context: tuple[int, ...] = ()
    for seq in range(1, 2000):
        for origin in (0, 1):
            dot = seq * STEP + origin
            see(window, dot, *context)
            context = (dot,)
        window.sweep()
        assert len(window) <= 2


def test_a_sweep_that_was_told_finds_and_forgets_no_more_and_says_whether_there_is_more() -> None:
    window = Window(0, 2)
    window.stow_in(MemoryAttic(), 4)
    for seq in range(1, 41):
        see(window, seq * STEP, *((seq - 1) * STEP,)[: seq - 1])
    window.heard(1, (40 * STEP,))
    found = [([tag.dot // STEP for tag in window.sweep(16)], window.unfinished) for _ in range(3)]
    assert found == [(list(range(1, 17)), True), (list(range(17, 33)), True), (list(range(33, 41)), False)]
    assert window.drained


def test_what_was_announced_behind_something_older_is_forgotten_a_little_at_a_time() -> None:
    window = Window(2, 3)
    old = see(window, STEP)
    for seq in range(1, 31):
        see(window, seq * STEP + 1, *((seq - 1) * STEP + 1,)[: seq - 1])
    window.heard(0, (STEP, 30 * STEP + 1))
    assert len(window.sweep(100)) == 30, "of the older one its sender is known to know, but not member 1"
    window.heard(1, (STEP, 30 * STEP + 1))
    assert window.sweep(10) == [old]
    told = [(window.sweep(10), window.unfinished, window.drained) for _ in range(3)]
    assert told == [([], True, False), ([], True, False), ([], False, True)]


@given(st.integers(0, 50), st.integers(0, 1 << 4000), st.integers(0, 60))
def test_places_are_those_of_the_lowest_bits(floor: int, bits: int, most: int) -> None:
    places = [floor + place for place in range(bits.bit_length()) if bits >> place & 1]
    assert as_places(floor, bits) == places
    assert as_places(floor, bits, most) == places[:most]
    assert as_bits(places, floor) == bits

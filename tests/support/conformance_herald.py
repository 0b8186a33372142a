"""What a schedule of phantoms must do: tell in time, ask with growing patience, fall silent.

Each check is a function of the class. Time is virtual: the herald's own wake-ups make it pass.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random

from support.schedules import portrait
from thence.core.machine import NEVER
from thence.order.phantom_timer import PhantomSchedule, PhantomSettings

HeraldCheck = Callable[[type[PhantomSchedule]], None]

TELL, ASK, ASK_MAX = 250_000, 1_000_000, 8_000_000
SETTINGS = PhantomSettings(tell_every_us=TELL, ask_after_us=ASK, ask_max_us=ASK_MAX)


class Desk:
    """A herald whose wake-ups come when it asked for them; what it did, and when."""

    def __init__(self, make: type[PhantomSchedule]) -> None:
        self.herald = make(SETTINGS)
        self.idle = False
        self.alarm = NEVER
        self.told: list[int] = []
        self.asked: list[int] = []
        self.wakes = 0

    def rouse(self, now: int) -> None:
        if self.herald.resting:
            self.alarm = self.herald.rouse(now)
            assert now < self.alarm <= now + TELL, "late: the first wake-up is too far away"

    def run(self, until: int) -> None:
        while self.alarm != NEVER and self.alarm <= until:
            now = self.alarm
            tell, ask, self.alarm = self.herald.wake(now, self.idle)
            assert self.alarm == NEVER or now < self.alarm <= now + TELL, "late: it sleeps too long"
            assert self.herald.resting == (self.alarm == NEVER), "rest: wrong about its wake-ups"
            self.told += [now] * tell
            self.asked += [now] * ask
            self.wakes += 1
            assert self.wakes < 5000, "silence: it never rests"

    def saw(self, own: bool, now: int) -> None:
        self.run(now)
        self.rouse(now)
        self.herald.saw(own, now)


def check_tells_in_time(make: type[PhantomSchedule]) -> None:
    """A member that takes something has sent a message or a phantom within two intervals."""
    for seed in range(20):
        rng = Random(seed)
        desk, now = Desk(make), 0
        takes: list[int] = []
        sends: list[int] = []
        for _ in range(60):
            now += rng.choice((1_000, 40_000, 300_000, 900_000))
            own = rng.random() < 0.2
            desk.saw(own, now)
            (sends if own else takes).append(now)
        desk.run(now + 10 * TELL)
        spoken = sorted(desk.told + sends)
        for at in takes:
            next_word = min((word for word in spoken if word >= at), default=now + 10 * TELL)
            assert next_word - at <= 2 * TELL, f"late: it spoke {next_word - at} µs after taking something"
        for one, other in pairwise(sorted(desk.told)):
            assert other - one >= TELL, "thrift: it tells too often"
        for word in desk.told:
            before = [at for at in spoken if at < word]
            assert not before or any(before[-1] <= at <= word for at in takes), "thrift: it told nothing new"


def check_active(make: type[PhantomSchedule]) -> None:
    """A member that sends more often than it would tell needs no phantoms."""
    desk = Desk(make)
    for number in range(200):
        desk.saw(own=number % 2 == 0, now=1 + number * TELL // 4)
    assert desk.told == [], f"thrift: {len(desk.told)} phantoms of one who speaks all the time"


def check_asks(make: type[PhantomSchedule]) -> None:
    """Nothing becomes stable: it asks, and asks less and less often, but never gives up."""
    desk = Desk(make)
    desk.saw(own=True, now=0)
    desk.run(120_000_000)
    gaps = [other - one for one, other in pairwise([0, *desk.asked])]
    slack = TELL
    due = [ASK, 2 * ASK, 4 * ASK, *[ASK_MAX] * 20]
    assert len(gaps) >= 15, f"late: only {len(gaps)} questions in two minutes"
    for gap, wait in zip(gaps, due, strict=False):
        assert gap >= wait, f"thrift: it asks again after {gap} µs, not {wait}"
        assert gap <= wait + slack, f"late: it asks again only after {gap} µs, not {wait}"


def check_progress(make: type[PhantomSchedule]) -> None:
    """What becomes stable puts the question off, and makes it patient as at first."""
    desk = Desk(make)
    desk.saw(own=True, now=0)
    for number in range(1, 40):
        desk.run(number * ASK // 2)
        desk.herald.progress(number * ASK // 2)
    assert desk.asked == [], "thrift: it asks although things move"
    now = 39 * ASK // 2
    desk.run(now + 20 * ASK)
    assert len(desk.asked) >= 3, "late: things stand still, and it does not ask"
    now += 20 * ASK
    desk.herald.progress(now)
    desk.run(now + ASK + TELL)
    assert desk.asked[-1] > now, "late: it is still as patient as it had become"


def check_rests(make: type[PhantomSchedule]) -> None:
    """All is stable and told: it asks for no more wake-ups, and for nothing else."""
    desk = Desk(make)
    desk.saw(own=False, now=0)
    desk.idle = True
    desk.run(100 * TELL)
    assert len(desk.told) == 1, f"late: told {len(desk.told)} times before it rested"
    assert desk.asked == [], "thrift: it asks although all is stable"
    assert desk.herald.resting, "rest: it does not"
    assert desk.wakes <= 3, "rest: it takes its time"


def check_does_not_rest_untold(make: type[PhantomSchedule]) -> None:
    """It spoke a moment ago and took something since: it rests only when that is told as well."""
    desk = Desk(make)
    desk.saw(own=True, now=0)
    desk.saw(own=True, now=TELL - 10)
    desk.saw(own=False, now=TELL - 5)
    desk.idle = True
    desk.run(20 * TELL)
    assert len(desk.told) == 1, "late: it fell asleep with something to tell"
    assert desk.herald.resting


def check_restless(make: type[PhantomSchedule]) -> None:
    """A wake-up that was not asked for changes nothing."""
    desk = Desk(make)
    assert desk.herald.wake(5, True) == (False, False, NEVER), "restless: it acts in its sleep"
    desk.saw(own=False, now=10)
    before = portrait(desk.herald)
    for now in range(11, TELL, 50_000):
        assert desk.herald.wake(now, False) == (False, False, NEVER), "restless: it breeds wake-ups"
    assert portrait(desk.herald) == before, "restless: it left a trace"


def check_resume(make: type[PhantomSchedule]) -> None:
    """After a crash the outstanding wake-up is gone: there is a new one, whatever was going on."""
    for crash in (0, 100_000, 3_000_000):
        desk = Desk(make)
        desk.saw(own=False, now=0)
        desk.run(crash)
        back = crash + 60_000_000
        desk.alarm = desk.herald.resume(back)
        assert back < desk.alarm <= back + TELL, "late: no wake-up after the crash"
        asked = len(desk.asked)
        desk.run(back + ASK - 1)
        assert len(desk.asked) == asked, "thrift: it asks before any member could have told"
        desk.run(back + 2 * ASK)
        assert len(desk.asked) == asked + 1, "late: it does not ask after the crash"


def check_first_word(make: type[PhantomSchedule]) -> None:
    """The first thing taken is told at the first wake-up, however early in the node's life."""
    desk = Desk(make)
    desk.saw(own=False, now=0)
    desk.run(TELL)
    assert desk.told == [TELL], "late: the first phantom"


HERALD_CHECKS: dict[str, HeraldCheck] = {
    "first word": check_first_word,
    "tells in time": check_tells_in_time,
    "active": check_active,
    "asks": check_asks,
    "progress": check_progress,
    "rests": check_rests,
    "does not rest untold": check_does_not_rest_untold,
    "restless": check_restless,
    "resume": check_resume,
}

"""Schedules over changing groups in which there is much to do at once, and what each step does of it.

Each returns what is wrong, nothing if all is well. Work is counted in messages, never in time.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from support.schedules_groups import Play
from thence.core.groups import Flow, Place
from thence.core.tag import Tag
from thence.oplog.record import Stored
from thence.oplog.view import View
from thence.replica.group import GroupNode
from thence.replica.group_settings import GroupSettings
from thence.sim.attic import MemoryAttic
from thence.sim.groups import Air

STEP = 32
LIMITS = {"stable": STEP, "sent": STEP, "log": STEP, "attic": 5 * STEP}
"""What a step of a or b may do at most. From the attic: to announce and to forget, and to look up rows."""


class Metered(Play):
    """a and b work while c is away; the most that one of their steps did is in `most`."""

    def __init__(self, window: int) -> None:
        self.most: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        settings = GroupSettings(step_max=STEP, tags_max=2 * STEP, window=window)
        super().__init__("abc", settings, 0, Air(jitter_us=0, links=True, wire=False))
        self.together("abc")

    @contextmanager
    def metering(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, counted in self._meters():
                stack.enter_context(patch.object(owner, name, counted))
            yield

    def _meters(self) -> Iterator[tuple[Any, str, Any]]:
        run, of, near, commit = MemoryAttic.run, MemoryAttic.of, View.near, GroupNode.commit

        def run_counted(attic: MemoryAttic, first: int, count: int) -> Any:
            self._done["attic"] += count
            return run(attic, first, count)

        def of_counted(attic: MemoryAttic, dot: int) -> Any:
            self._done["attic"] += 1
            return of(attic, dot)

        def near_counted(view: View, origin: int, after: int) -> Iterator[Stored]:
            for stored in near(view, origin, after):
                self._done["log"] += 1
                yield stored

        def committed(node: GroupNode, now: int) -> Any:
            effects = commit(node, now)
            flows = [post.packet for post in node.posts if isinstance(post.packet, Flow) and post.to == "c"]
            self._done["sent"] += sum([len(flow.bodies) for flow in flows])
            if node.name in "ab":
                self.most |= self._done
            self._done.clear()
            return effects

        yield MemoryAttic, "run", run_counted
        yield MemoryAttic, "of", of_counted
        yield View, "near", near_counted
        yield GroupNode, "commit", committed
        for name in "ab":
            application = self.processes[name].application
            yield application, "stable", self._stable(application.stable)

    def _stable(self, told: Callable[[Place, Tag], None]) -> Callable[[Place, Tag], None]:
        def counted(place: Place, tag: Tag) -> None:
            self._done["stable"] += 1
            told(place, tag)

        return counted

    def too_much(self) -> str:
        """Who does nothing does not count either."""
        wrong = {what: self.most[what] for what, most in LIMITS.items() if not 0 < self.most[what] <= most}
        return f"in one step: {wrong}" if wrong else ""


def long_away() -> str:
    """c was away while a and b said much; it is back, and speaks before it has heard all of that."""
    play = Metered(window=100)
    with play.metering():
        play.crash("c")
        play.passes(1)
        for _ in range(600):
            play.send("a")
            play.send("b")
            play.passes(0.001)
        play.most.clear()
        play.boot("c")
        play.passes(0.2)
        for _ in range(20):
            play.send("c")
            play.passes(0.01)
        return play.ends_well() or play.too_much()


def few_among_many() -> str:
    """The same, and a has said little: its messages must be looked for among those of b."""
    play = Metered(window=8)
    with play.metering():
        play.crash("c")
        play.passes(1)
        for _ in range(20):
            play.send("a")
            for _ in range(40):
                play.send("b")
            play.passes(0.01)
        play.most.clear()
        play.boot("c")
        return play.ends_well() or play.too_much()


LOAD: dict[str, Callable[[], str]] = {schedule.__name__: schedule for schedule in (long_away, few_among_many)}

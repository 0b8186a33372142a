"""Small applications that decide by tags, as sections 3.4 and 3.5 of the document want them to."""

from thence.core.dots import STEP, seq_of
from thence.core.message import Message
from thence.order.engine import Engine


class Tags:
    """What one application can tell about happens-before from the tags of what it sent and got."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._past: dict[int, frozenset[int]] = {}

    def saw(self, message: Message) -> None:
        """Causal delivery means that the causes were seen before: their pasts are known."""
        causes = set(self._engine.predecessors(message) or ())
        if seq_of(message.dot) > 1:
            causes.add(message.dot - STEP)
        self._past[message.dot] = frozenset(causes).union(*(self._past[cause] for cause in causes))

    def before(self, one: Message, other: Message) -> bool:
        return one.dot in self._past[other.dot]

    def concurrent(self, one: Message, other: Message) -> bool:
        return not self.before(one, other) and not self.before(other, one)


class Monitor:
    """Shows option prices, and theoretical prices only while the price behind them is the current one."""

    def __init__(self, engine: Engine) -> None:
        self._tags = Tags(engine)
        self._option: Message | None = None
        self.shown: list[str] = []

    def on(self, what: str, message: Message) -> None:
        self._tags.saw(message)
        if what.startswith("O"):
            self._option = message
        elif self._option is None or not self._tags.before(self._option, message):
            return
        self.shown.append(what)


class AddWinsSet:
    """An operation-based set of one element: a remove takes away the adds that it has seen."""

    def __init__(self, engine: Engine) -> None:
        self._tags = Tags(engine)
        self._adds: list[Message] = []
        self._removes: list[Message] = []

    def on(self, what: str, message: Message) -> None:
        self._tags.saw(message)
        (self._adds if what == "add" else self._removes).append(message)

    def __contains__(self, element: str) -> bool:
        return any(not any(self._tags.before(add, remove) for remove in self._removes) for add in self._adds)

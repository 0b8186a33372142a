"""Planted bugs, to test the tests: each must be found by the check that is named beside it.

A mutant is an edit of a module's source. The edited source is run as a module of its own and the
object under test is taken from it; the real module stays as it is. Every snippet must occur exactly
once, so that a mutant cannot quietly stop being one when the code changes.

`E` numbers in names are those of docs/ERRATA.md: the printed algorithms' own bugs, planted into ours.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Edit = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    module: str
    check: str
    """The check of the module's kit that must fail."""
    finds: str
    """How it says so: the first word of the assertion, or the type of another error."""
    edits: tuple[Edit, ...]


def mutate(module: str, edits: tuple[Edit, ...]) -> ModuleType:
    """The module with its source edited."""
    source = inspect.getsource(importlib.import_module(module))
    for snippet, replacement in edits:
        found = source.count(snippet)
        assert found == 1, f"{found} places in {module} look like {snippet!r}"
        source = source.replace(snippet, replacement)
    mutated = ModuleType(f"{module}_mutated")
    exec(compile(source, f"<{module}, mutated>", "exec"), mutated.__dict__)
    return mutated


Kit = tuple[Callable[[ModuleType], object], Mapping[str, Callable[[Any], None]]]
"""What to take from a module, and the checks to put it under."""


def verdict(subject: object, check: Callable[[Any], None]) -> str:
    """What a check says of a subject: the first word of its assertion, or another error's type."""
    try:
        check(subject)
    except AssertionError as error:
        return str(error).split(":")[0]
    except Exception as error:
        return type(error).__name__
    return "nothing"


def verdict_on(mutant: Mutant, kits: Mapping[str, Kit]) -> str:
    take, checks = kits[mutant.module]
    return verdict(take(mutate(mutant.module, mutant.edits)), checks[mutant.check])


def of(module: str, *mutants: tuple[str, str, str, *tuple[Edit, ...]]) -> list[Mutant]:
    return [Mutant(name, module, check, finds, tuple(edits)) for name, check, finds, *edits in mutants]


GRAPH = of(
    "thence.order.graph",
    ("E1a: the first message is number 0", "alone", "lost",
     ("self._dot = me\n", "self._dot = me - STEP\n")),
    ("E1b: after a send the context is the next dot", "two queues", "stamp",
     ("self._context = {self._dot}", "self._context = {self._dot + STEP}")),
    ("E2: the application gets the filtered context", "two queues", "stamp",
     ("        return [message]\n", "        return [Message(dot, tuple(missing), message.payload)]\n")),
    ("E5: release recurses along the graph", "long chain", "RecursionError",
     ("        ready = [first]\n        for message in ready:\n",
      "        for message in (first,):\n"),
     ("                    ready.append(successor)\n                    released.append(successor)\n",
      "                    released.extend(self._release(successor))\n")),
    ("after a send the context keeps what it had", "reduced", "reduced",
     ("self._context = {self._dot}", "self._context.add(self._dot)")),
    ("a delivery does not replace what it follows", "reduced", "reduced",
     ("context.difference_update(message.context)", "pass")),
    ("a delivery does not enter the context", "two queues", "stamp",
     ("        context.add(message.dot)\n", "")),
    ("a delivery replaces the whole context", "two queues", "stamp",
     ("context.difference_update(message.context)", "context.clear()")),
    ("what waits is taken for new when it comes again", "two queues", "KeyError",
     (" or dot in self._missing:", ":")),
    ("what was delivered is taken for new when it comes again", "two queues", "twice",
     ("dot <= delivered[dot & ORIGIN_MASK] or ", "")),
    ("the newest delivered message counts as missing", "two queues", "held",
     ("if p > delivered[p & ORIGIN_MASK]]", "if p >= delivered[p & ORIGIN_MASK]]")),
    ("only the first predecessor is waited for", "two queues", "order",
     ("        if missing:\n", "        missing = missing[:1]\n        if missing:\n")),
    ("one predecessor is enough", "two queues", "order",
     ("left = missing[dot] - 1", "left = 0")),
    ("a second successor displaces the first", "two queues", "held",
     ("successors[p].append(message)", "successors[p] = [message]")),
    ("what became ready frees nothing else", "reversed", "held",
     ("                    ready.append(successor)\n", "")),
    ("what is delivered at once is not counted", "alone", "held",
     ("        delivered[dot & ORIGIN_MASK] = dot\n        if dot in", "        if dot in")),
    ("what waited is not counted when delivered", "two queues", "held",
     ("                    delivered[dot & ORIGIN_MASK] = dot\n", "")),
    ("own messages are not counted", "two queues", "held",
     ("self._delivered[message.dot & ORIGIN_MASK] = message.dot", "pass")),
    ("successors of delivered messages stay", "two queues", "rest",
     ("successors.pop(message.dot, ())", "successors.get(message.dot, ())")),
    ("what was delivered still counts as waiting", "two queues", "waiting",
     ("                    del missing[dot]\n", "                    missing[dot] = 0\n")),
    ("a new member takes no place", "admission", "IndexError",
     ("self._delivered.append(member)", "pass")),
)  # fmt: skip

VECTOR = of(
    "thence.order.vector",
    ("E3: a vector of received counters tells duplicates", "two queues", "lost",
     ('"_queued")', '"_queued", "_counted")'),
     ("        self._queued: set[int] = set()\n",
      "        self._queued: set[int] = set()\n        self._counted = [0] * 9\n"),
     ("dot >> ORIGIN_BITS <= self._delivered[dot & ORIGIN_MASK] or dot in self._queued:\n"
      "            return []\n",
      "dot >> ORIGIN_BITS <= self._counted[dot & ORIGIN_MASK]:\n            return []\n"
      "        self._counted[dot & ORIGIN_MASK] += 1\n")),
    ("E4a: the queue is compacted backwards", "two queues", "held",
     ("            survivors = []\n", "            survivors = list(self._queue)\n            to = 0\n"),
     ("            for message in self._queue:\n",
      "            for from_, message in enumerate(survivors):\n"),
     ("                    survivors.append(message)\n",
      "                    survivors[from_] = survivors[to]\n                    to += 1\n"),
     ("            self._queue = survivors\n", "            self._queue = survivors[:to]\n")),
    ("E4b: what is delivered at once is not counted", "alone", "held",
     ("        released: list[OrderEffect] = [message]\n",
      "        released: list[OrderEffect] = [message]\n        self._delivered[dot & ORIGIN_MASK] -= 1\n")),
    ("the stamp is the live vector, not a copy", "late client", "stamp",
     ("tuple(self._seen), payload", "self._seen, payload")),
    ("a delivery is not seen", "two queues", "stamp",
     ("self._seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS", "pass")),
    ("a delivery counts for the wrong member", "two queues", "stamp",
     ("self._seen[message.dot & ORIGIN_MASK] = message", "self._seen[self._me - 1] = message")),
    ("what waits is queued again when it comes again", "two queues", "waiting",
     (" or dot in self._queued:", ":")),
    ("what was delivered is queued when it comes again", "two queues", "waiting",
     ("dot >> ORIGIN_BITS <= self._delivered[dot & ORIGIN_MASK] or ", "")),
    ("other members' messages are not waited for", "two queues", "order",
     ("if any(map(gt, message.context, delivered)):", "if False:")),
    ("the sender's earlier messages are not waited for", "two queues", "order",
     ("if seq != delivered[origin] + 1:", "if seq <= delivered[origin]:")),
    ("a refused message stays counted", "callbacks", "order",
     ("            delivered[origin] = seq - 1\n", "")),
    ("the queue is gone through once", "two queues", "held",
     ("while before != len(released):", "if before != len(released):")),
    ("the queue is not gone through", "reversed", "held",
     ("        if self._queue:\n", "        if False:\n")),
    ("dots of delivered messages stay", "two queues", "rest",
     ("                    self._queued.discard(message.dot)\n", "")),
    ("own messages are not counted", "two queues", "held",
     ("self._delivered[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS", "pass")),
    ("a message names itself among its causes", "two queues", "stamp",
     ("seq - 1 if origin == own else seq", "seq")),
    ("a new member is not seen", "admission", "IndexError",
     ("        self._seen.append(0)\n", "")),
    ("a new member takes no place", "admission", "IndexError",
     ("        self._delivered.append(0)\n", "")),
)  # fmt: skip

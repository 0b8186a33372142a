"""Planted bugs, to test the tests: each must be found by the check that is named beside it.

A mutant is a list of edits. An edit names a place (`module:qualname`, a class, method or function with its
decorators; the module alone for its constants and imports), a snippet that occurs there exactly once, and
what replaces it. So a mutant cannot quietly stop being one when the code changes, and one whose code moved
needs another place and nothing else. All edits of a mutant refer to the source as it stands.

The edited source is run as a module of its own and the object under test is taken from it; the real module
stays as it is.

`E` numbers in names are those of docs/ERRATA.md: the printed algorithms' own bugs, planted into ours.
"""

import ast
import gc
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

import thence

Edit = tuple[str, str, str]
"""A place, a snippet that it has, and what replaces the snippet."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    module: str
    """What the object under test is taken from; edits may be in modules that it imports."""
    check: str
    """The check of the module's kit that must fail."""
    finds: str
    """How it says so: the first word of the assertion, or the type of another error."""
    edits: tuple[Edit, ...]


def module_of(place: str) -> str:
    return place.partition(":")[0]


@cache
def sources() -> dict[str, str]:
    """The source of each module of the project."""
    root = Path(thence.__file__).parent
    names = {path: (root.name, *path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")}
    return {
        ".".join(parts).removesuffix(".__init__"): path.read_text(encoding="utf-8")
        for path, parts in sorted(names.items())
    }


def parse(source: str) -> list[ast.stmt]:
    """The statements of a source. Nothing is collected meanwhile: a finalizer may parse as well (to log a
    traceback is enough), and Python 3.11 does not take one parse within another."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source).body
    finally:
        if collects:
            gc.enable()


@cache
def places(module: str) -> dict[str, list[Span]]:
    """Where a module's classes and functions are, by qualname; a property and its setter share theirs."""
    source = sources()[module]
    lines = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
    found: dict[str, list[Span]] = {"": [(0, len(source))]}

    def enter(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                span = lines[first - 1], lines[node.end_lineno or first]
                found.setdefault(prefix + node.name, []).append(span)
            if isinstance(node, ast.ClassDef):
                enter(node.body, f"{prefix}{node.name}.")

    enter(parse(source), "")
    return found


def smallest(module: str, span: Span) -> str:
    """The smallest place around a span of a module."""
    around = [
        (end - start, qualname)
        for qualname, spans in places(module).items()
        for start, end in spans
        if start <= span[0] and span[1] <= end
    ]
    return f"{module}:{min(around)[1]}".removesuffix(":")


def spans(snippet: str, module: str, qualname: str = "") -> list[Span]:
    """Where a place has a snippet."""
    within = [(start, sources()[module][start:end]) for start, end in places(module).get(qualname, ())]
    found = ((start, match) for start, text in within for match in re.finditer(re.escape(snippet), text))
    return [(start + match.start(), start + match.end()) for start, match in found]


def elsewhere(place: str, snippet: str) -> str:
    """Where the snippet of an edit that does not fit any more is likely to have gone, if that is clear."""
    module, _, qualname = place.partition(":")
    having = [smallest(other, span) for other in sources() for span in spans(snippet, other)]
    if len(having) == 1:
        return f"; {having[0]} has it"
    named = [other for other in sources() if other != module and qualname and qualname in places(other)]
    return f"; there is a {qualname} in {named[0]}" if len(named) == 1 else ""


def find(place: str, snippet: str) -> tuple[str, Span]:
    """The module, and where in it the one snippet is that an edit means."""
    module, _, qualname = place.partition(":")
    if module not in sources():
        raise AssertionError(f"there is no module {module} for {snippet!r}{elsewhere(place, snippet)}")
    if qualname not in places(module):
        raise AssertionError(f"{module} has no {qualname} for {snippet!r}{elsewhere(place, snippet)}")
    found = spans(snippet, module, qualname)
    if not found:
        raise AssertionError(f"{place} has no {snippet!r}{elsewhere(place, snippet)}")
    assert len(found) == 1, f"{place} has {snippet!r} {len(found)} times"
    return module, found[0]


def edited(edits: Iterable[Edit]) -> dict[str, str]:
    """The modules that edits are made in: their sources with the edits made."""
    changes: dict[str, list[tuple[Span, str]]] = {}
    for place, snippet, replacement in edits:
        module, span = find(place, snippet)
        changes.setdefault(module, []).append((span, replacement))
    result = {module: sources()[module] for module in changes}
    for module, changed in changes.items():
        left = len(result[module])
        for (start, end), replacement in sorted(changed, reverse=True):
            assert end <= left, f"two edits of {module} overlap at {sources()[module][start:end]!r}"
            result[module] = result[module][:start] + replacement + result[module][end:]
            left = start
    return result


def run(module: str, source: str) -> ModuleType:
    """A module made of this source, entered nowhere."""
    made = ModuleType(f"{module}_mutated")
    exec(compile(source, f"<{module}, mutated>", "exec"), made.__dict__)
    return made


def mutate(module: str, edits: Iterable[Edit]) -> ModuleType:
    """The module with these edits in it, or in modules that it imports from."""
    importlib.import_module(module)  # with all that it imports, so that no real module gets an edited one
    changed = edited(edits)
    source = changed.pop(module, sources()[module])
    real = {name: importlib.import_module(name) for name in changed}
    try:
        for name, text in changed.items():
            sys.modules[name] = run(name, text)
        return run(module, source)
    finally:
        sys.modules.update(real)


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
    """Mutants of a module. Places in it go without its name: `:qualname`, or `:` for the whole of it."""

    def full(edit: Edit) -> Edit:
        place, snippet, replacement = edit
        return f"{module}{place}".removesuffix(":") if place.startswith(":") else place, snippet, replacement

    return [
        Mutant(name, module, check, finds, tuple(map(full, edits))) for name, check, finds, *edits in mutants
    ]


def through(module: str, mutants: list[Mutant]) -> list[Mutant]:
    """Mutants of what a module imports, tried through that module."""
    return [replace(mutant, module=module) for mutant in mutants]


GRAPH = of(
    "thence.order.graph",
    ("E1a: the first message is number 0", "alone", "lost",
     (":GraphTagger.__init__", "self._dot = me\n", "self._dot = me - STEP\n")),
    ("E1b: after a send the context is the next dot", "two queues", "stamp",
     (":GraphTagger.tag", "self._context = {self._dot}", "self._context = {self._dot + STEP}")),
    ("E2: the application gets the filtered context", "two queues", "stamp",
     (":GraphOrderer.receive", "        return [message]\n",
      "        return [Message(dot, tuple(missing), message.payload)]\n")),
    ("E5: release recurses along the graph", "long chain", "RecursionError",
     (":GraphOrderer._release", "        ready = [first]\n        for message in ready:\n",
      "        for message in (first,):\n"),
     (":GraphOrderer._release",
      "                    ready.append(successor)\n                    released.append(successor)\n",
      "                    released.extend(self._release(successor))\n")),
    ("a message need not follow from its sender's last", "lying sender", "reduced",
     (":GraphTagger.took", "        context.discard(message.before)\n", "")),
    ("after a send the context keeps what it had", "reduced", "reduced",
     (":GraphTagger.tag", "self._context = {self._dot}", "self._context.add(self._dot)")),
    ("a delivery does not replace what it follows", "reduced", "reduced",
     (":GraphTagger.took", "context.difference_update(message.context)", "pass")),
    ("a delivery does not enter the context", "two queues", "stamp",
     (":GraphTagger.took", "        context.add(message.dot)\n", "")),
    ("a delivery replaces the whole context", "two queues", "stamp",
     (":GraphTagger.took", "context.difference_update(message.context)", "context.clear()")),
    ("what waits is taken for new when it comes again", "two queues", "KeyError",
     (":GraphOrderer.receive", " or dot in self._missing:", ":")),
    ("what was delivered is taken for new when it comes again", "two queues", "twice",
     (":GraphOrderer.receive", "dot <= delivered[dot & ORIGIN_MASK] or ", "")),
    ("the newest delivered message counts as missing", "two queues", "held",
     (":GraphOrderer.receive", "if p > delivered[p & ORIGIN_MASK]:", "if p >= delivered[p & ORIGIN_MASK]:")),
    ("only the first predecessor is waited for", "two queues", "order",
     (":GraphOrderer.receive", "        if missing:\n",
      "        missing = missing[:1]\n        if missing:\n")),
    ("one predecessor is enough", "two queues", "order",
     (":GraphOrderer._release", "left = missing[dot] - 1", "left = 0")),
    ("a second successor displaces the first", "two queues", "held",
     (":GraphOrderer.receive", "successors[p].append(message)", "successors[p] = [message]")),
    ("what became ready frees nothing else", "reversed", "held",
     (":GraphOrderer._release", "                    ready.append(successor)\n", "")),
    ("what is delivered at once is not counted", "alone", "held",
     (":GraphOrderer.receive", "        delivered[dot & ORIGIN_MASK] = dot\n        if dot in",
      "        if dot in")),
    ("what waited is not counted when delivered", "two queues", "held",
     (":GraphOrderer._release", "                    delivered[dot & ORIGIN_MASK] = dot\n", "")),
    ("own messages are not counted", "two queues", "held",
     (":GraphOrderer.sent", "self._delivered[message.dot & ORIGIN_MASK] = message.dot", "pass")),
    ("successors of delivered messages stay", "two queues", "rest",
     (":GraphOrderer._release", "successors.pop(message.dot, ())", "successors.get(message.dot, ())")),
    ("what was delivered still counts as waiting", "two queues", "waiting",
     (":GraphOrderer._release", "                    del missing[dot]\n",
      "                    missing[dot] = 0\n")),
    ("a new member takes no place", "admission", "IndexError",
     (":GraphOrderer.admit", "self._delivered.append(member)", "pass")),
)  # fmt: skip

VECTOR = of(
    "thence.order.vector",
    ("E3: a vector of received counters tells duplicates", "two queues", "lost",
     (":VectorOrderer", '"_queued")', '"_queued", "_counted")'),
     (":VectorOrderer.__init__", "        self._queued: set[int] = set()\n",
      "        self._queued: set[int] = set()\n        self._counted = [0] * 9\n"),
     (":VectorOrderer.receive",
      "dot >> ORIGIN_BITS <= self._delivered[dot & ORIGIN_MASK] or dot in self._queued:\n"
      "            return []\n",
      "dot >> ORIGIN_BITS <= self._counted[dot & ORIGIN_MASK]:\n            return []\n"
      "        self._counted[dot & ORIGIN_MASK] += 1\n")),
    ("E4a: the queue is compacted backwards", "two queues", "held",
     (":VectorOrderer._scan", "            survivors = []\n",
      "            survivors = list(self._queue)\n            to = 0\n"),
     (":VectorOrderer._scan", "            for message in self._queue:\n",
      "            for from_, message in enumerate(survivors):\n"),
     (":VectorOrderer._scan", "                    survivors.append(message)\n",
      "                    survivors[from_] = survivors[to]\n                    to += 1\n"),
     (":VectorOrderer._scan", "            self._queue = survivors\n",
      "            self._queue = survivors[:to]\n")),
    ("E4b: what is delivered at once is not counted", "alone", "held",
     (":VectorOrderer.receive", "        released: list[OrderEffect] = [message]\n",
      "        released: list[OrderEffect] = [message]\n        self._delivered[dot & ORIGIN_MASK] -= 1\n")),
    ("the stamp is the live vector, not a copy", "late client", "stamp",
     (":VectorTagger.tag", "tuple(self._seen), payload", "self._seen, payload")),
    ("a delivery is not seen", "two queues", "stamp",
     (":VectorTagger.took", "self._seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS", "pass")),
    ("a delivery counts for the wrong member", "two queues", "stamp",
     (":VectorTagger.took", "self._seen[message.dot & ORIGIN_MASK] = message",
      "self._seen[self._me - 1] = message")),
    ("what waits is queued again when it comes again", "two queues", "waiting",
     (":VectorOrderer.receive", " or dot in self._queued:", ":")),
    ("what was delivered is queued when it comes again", "two queues", "waiting",
     (":VectorOrderer.receive", "dot >> ORIGIN_BITS <= self._delivered[dot & ORIGIN_MASK] or ", "")),
    ("other members' messages are not waited for", "two queues", "order",
     (":VectorOrderer._deliver", "if any(map(gt, message.context, delivered)):", "if False:")),
    ("the sender's earlier messages are not waited for", "two queues", "order",
     (":VectorOrderer._deliver", "if seq != delivered[origin] + 1:", "if seq <= delivered[origin]:")),
    ("a refused message stays counted", "callbacks", "order",
     (":VectorOrderer._deliver", "            delivered[origin] = seq - 1\n", "")),
    ("the queue is gone through once", "two queues", "held",
     (":VectorOrderer._scan", "while before != len(released):", "if before != len(released):")),
    ("the queue is not gone through", "reversed", "held",
     (":VectorOrderer.receive", "        if self._queue:\n", "        if False:\n")),
    ("dots of delivered messages stay", "two queues", "rest",
     (":VectorOrderer._scan", "                    self._queued.discard(message.dot)\n", "")),
    ("own messages are not counted", "two queues", "held",
     (":VectorOrderer.sent", "self._delivered[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS",
      "pass")),
    ("a message names itself among its causes", "two queues", "stamp",
     (":predecessors", "seq - 1 if origin == own else seq", "seq")),
    ("a new member is not seen", "admission", "IndexError",
     (":VectorTagger.admit", "        self._seen.append(0)\n", "")),
    ("a new member takes no place", "admission", "IndexError",
     (":VectorOrderer.admit", "        self._delivered.append(0)\n", "")),
)  # fmt: skip

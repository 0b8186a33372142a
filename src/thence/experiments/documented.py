"""What the documents report, where their text gives a number, and a word on why ours differ."""

from dataclasses import dataclass
from typing import Any

from thence.pages.page import table
from thence.pages.text import significant


@dataclass(frozen=True, slots=True)
class Documented:
    """A figure of a document at 128 peers, and which of our measurements stands beside it."""

    what: str
    order: str
    stability: bool
    load: str
    measure: str
    unit: str
    theirs: str
    why: str


ENTRIES = "The same quantity. Contexts follow from latency and rate alone, whatever the implementation."
VECTOR = "A vector has an entry per member, by construction."
WORDS = (
    "Counted in the same way (8.3.1), median over the run. The document's members were real processes that "
    "fell behind, so that many more messages were unstable at a time."
)
DENSE = (
    "Counted in the same way, two words per predecessor and per successor: with contexts of half the group "
    "the sum exceeds the vectors'. In bytes allocated the graph is smaller. The document had far more "
    "messages unstable at a time, where the square of the vectors' matrix and map decides."
)
CPU = (
    "Theirs is the elapsed time in an Erlang process, ours the CPU time of the engine's own code in CPython. "
    "Stability is amortised over a sweep."
)
SLOW = (
    "The document's seconds are queueing: deliveries wait while the queue is scanned. Ours is the CPU time "
    "from the arrival of the last cause to the release."
)

CONSTANT = "constant work"

TCB: dict[str, list[Documented]] = {
    "tcb-1": [
        Documented("predecessors", "graph", False, "10 ms", "entries", "", "at worst 80", ENTRIES),
        Documented("entries", "vector-e2e", False, "10 ms", "entries", "", "256", VECTOR),
        Documented("memory", "graph", False, "10 ms", "memory_words", "KB", "negligible", WORDS),
        Documented("memory", "vector-e2e", False, "10 ms", "memory_words", "KB", "> 500 KB", WORDS),
        Documented("memory, stable", "graph", True, "10 ms", "memory_words", "KB", "< 2.5 MB", DENSE),
        Documented("memory, stable", "vector-e2e", True, "10 ms", "memory_words", "KB", "> 40 MB", WORDS),
        Documented("stability", "graph", True, "10 ms", "stability_us", "µs", "2–3 ms", CPU),
        Documented("stability", "vector-e2e", True, "10 ms", "stability_us", "µs", "> 10 ms", CPU),
    ],
    "tcb-2": [
        Documented("predecessors", "graph", False, "10 ms", "entries", "", "at worst 80", ENTRIES),
        Documented("entries", "vector", False, "10 ms", "entries", "", "128", VECTOR),
        Documented("memory", "vector", False, "10 ms", "memory_words", "KB", "> 250 KB", WORDS),
        Documented("memory, stable", "graph", True, "10 ms", "memory_words", "KB", "< 2.5 MB", DENSE),
        Documented("memory, stable", "vector", True, "10 ms", "memory_words", "KB", "> 20 MB", WORDS),
        Documented("delivery", "graph", False, "10 ms", "delivery_us", "µs", "about 40 µs", CPU),
        Documented("delivery", "vector", False, "10 ms", "delivery_us", "µs", "below 40 µs", CPU),
        Documented("delivery, stable", "graph", True, "10 ms", "delivery_us", "µs", "50–270 µs", CPU),
        Documented("delivery, stable", "vector", True, "10 ms", "delivery_us", "µs", "25–50 µs", CPU),
        Documented("stability", "graph", True, "10 ms", "stability_us", "µs", "2–3 ms", CPU),
        Documented("stability", "vector", True, "10 ms", "stability_us", "µs", "> 10 ms", CPU),
    ],
    "tcb-3": [
        Documented("memory, stable", "graph", True, CONSTANT, "memory_words", "KB", "negligible", WORDS),
        Documented("memory, stable", "vector", True, CONSTANT, "memory_words", "KB", "about 7 MB", WORDS),
        Documented("delivery", "graph", False, CONSTANT, "delivery_us", "µs", "about 40 µs", CPU),
        Documented("delivery, stable", "graph", True, CONSTANT, "delivery_us", "µs", "about 75 µs", CPU),
        Documented("delivery, stable", "vector", True, CONSTANT, "delivery_us", "µs", "about 25 µs", CPU),
        Documented("stability", "graph", True, CONSTANT, "stability_us", "µs", "2–3 ms", CPU),
        Documented("stability", "vector", True, CONSTANT, "stability_us", "µs", "> 10 ms", CPU),
    ],
    "tcb-slow-link": [
        Documented("delivery", "vector", False, "exp 2, 10 ms", "delivery_us", "µs", "10–12 ms", SLOW),
        Documented("delivery", "graph", False, "exp 2, 10 ms", "delivery_us", "µs", "less", SLOW),
        Documented("delivery, stable", "graph", True, "exp 2, 10 ms", "delivery_us", "µs", "50 ms", SLOW),
        Documented("delivery, stable", "vector", True, "exp 2, 10 ms", "delivery_us", "µs", "1.7 s", SLOW),
        Documented("delivery", "graph", False, "exp 3", "delivery_us", "µs", "6 ms", SLOW),
        Documented("delivery", "vector", False, "exp 3", "delivery_us", "µs", "11 ms", SLOW),
        Documented("delivery, stable", "graph", True, "exp 3", "delivery_us", "µs", "70 ms", SLOW),
        Documented("delivery, stable", "vector", True, "exp 3", "delivery_us", "µs", "2.2 s", SLOW),
    ],
}  # fmt: skip


def beside(documented: list[Documented], results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """The table with the document's figure beside ours at the largest size, as HTML and as rows."""
    rows = []
    for entry in documented:
        ours = [
            result
            for result in results
            if (result["order"], result["stability"], result["load"])
            == (entry.order, entry.stability, entry.load)
        ]
        if not ours:
            continue
        largest = max(ours, key=lambda result: int(result["size"]))
        value = largest[entry.measure] * (0.008 if entry.measure == "memory_words" else 1)
        rows.append(
            {
                "what": entry.what,
                "engine": entry.order,
                "load": entry.load,
                "document (128 peers)": entry.theirs,
                "ours": f"{significant(value)} {entry.unit}".strip(),
                "peers": str(largest["size"]),
                "why they differ": entry.why,
            }
        )
    if not rows:
        return "<p>The document's text gives no number for this.</p>", rows
    return table(rows, CLASSES), rows


CLASSES = {"ours": "n", "document (128 peers)": "n", "peers": "n", "why they differ": "why"}

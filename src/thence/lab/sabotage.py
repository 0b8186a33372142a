"""Planting one fault of each kind into a good trace, so that a person sees what finding it looks like."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

Row = dict[str, object]
Rows = list[Row]


def plant_all(source: Path, target: Path) -> dict[str, str]:
    """Write a broken copy of a graph engine's trace, whose tags name immediate predecessors only, as
    JSON lines; verdict -> what was planted, each exactly once."""
    rows: Rows = pq.read_table(source).to_pylist()
    rows.sort(key=lambda row: (str(row["node"]), _pos(row)))
    planted = {verdict: plant(rows) for verdict, plant in PLANTS.items()}
    target.mkdir(parents=True, exist_ok=True)
    with (target / "sabotaged.jsonl").open("w") as file:
        for row in rows:
            file.write(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n")
    return planted


def _pos(row: Row) -> int:
    pos = row["pos"]
    assert isinstance(pos, int)
    return pos


def _name(row: Row) -> str:
    return f"{row['origin']}:{row['seq']}"


def _of(rows: Rows, node: str, kind: str) -> Rows:
    return [row for row in rows if row["node"] == node and row["kind"] == kind]


def _make_room(rows: Rows, node: str) -> None:
    """Put a free position between any two rows of a node."""
    for row in rows:
        if row["node"] == node:
            row["pos"] = 2 * _pos(row)


def _deps(rows: Rows) -> dict[str, list[str]]:
    """Message -> the messages that its tag names."""
    deps: dict[str, list[str]] = {}
    for row in rows:
        if row["kind"] == "send":
            named = row["deps"]
            assert isinstance(named, list)
            deps[_name(row)] = [_name(dep) for dep in named]
    return deps


def swap(rows: Rows) -> str:
    """Two neighbouring deliveries, the second because of the first, change places."""
    deps = _deps(rows)
    delivered = _of(rows, "n1", "deliver")
    for cause, effect in pairwise(delivered):
        adjacent = _pos(effect) == _pos(cause) + 1
        if adjacent and _name(cause) in deps[_name(effect)]:
            cause["pos"], effect["pos"] = effect["pos"], cause["pos"]
            return f"n1 delivers {_name(effect)} before {_name(cause)}, which caused it"
    raise AssertionError("no two neighbouring deliveries depend on each other")


def repeat(rows: Rows) -> str:
    """A delivery happens twice in a row."""
    again = _of(rows, "n2", "deliver")[0]
    _make_room(rows, "n2")
    rows.append({**again, "pos": _pos(again) + 1})
    return f"n2 delivers {_name(again)} twice"


def forge(rows: Rows) -> str:
    """A message is delivered that no node sent."""
    rows.append({**_of(rows, "n3", "deliver")[0], "pos": 10**9, "seq": 999_999})
    return f"n3 delivers {_name(rows[-1])}, which no node sent"


def lose(rows: Rows) -> str:
    """The last delivery of a node does not happen."""
    last = _of(rows, "n4", "deliver")[-1]
    assert _pos(last) > _pos(_of(rows, "n4", "send")[-1]), "a later send would follow from it"
    rows[:] = [row for row in rows if row["node"] != "n4" or _name(row) != _name(last)]
    return f"n4 never delivers {_name(last)}"


def skip(rows: Rows) -> str:
    """The last message of a node, and every word about it, gets a later number."""
    last = _of(rows, "n5", "send")[-1]
    origin, seq = last["origin"], last["seq"]
    assert isinstance(seq, int)
    for row in rows:
        named = row["deps"] if row["kind"] == "send" else []
        assert isinstance(named, list)
        for dep in [row, *named]:
            if (dep["origin"], dep["seq"]) == (origin, seq):
                dep["seq"] = seq + 1
    return f"n5 numbers a message {seq + 1} after {seq - 1}"


def rush(rows: Rows) -> str:
    """A message is called stable although concurrent ones are still to come."""
    sent = _of(rows, "n6", "send")[0]
    _make_room(rows, "n6")
    rows.append({**sent, "kind": "stable", "deps": None, "pos": _pos(sent) + 1})
    return f"n6 calls {_name(sent)} stable as soon as it is sent"


def forget(rows: Rows) -> str:
    """A tag leaves out one of the messages that it follows from."""
    for row in _of(rows, "n7", "send"):
        named = row["deps"]
        assert isinstance(named, list)
        if len(named) > 1 and named[0]["origin"] != "n7":
            left_out = named.pop(0)
            return f"the tag of {_name(row)} leaves out {_name(left_out)}"
    raise AssertionError("no tag names two messages")


def overtake(rows: Rows) -> str:
    """A process that comes back in the end sends something new, and then again what was new long ago."""
    sent = {str(row["origin"]): row["seq"] for row in sorted(rows, key=_pos) if row["kind"] == "send"}
    frontier = [{"origin": origin, "seq": seq} for origin, seq in sorted(sent.items())]
    back: Row = {"run": rows[0]["run"], "node": "n8~2", "process": "n8", "incarnation": 2}
    send: Row = {**back, "kind": "send", "origin": "n8~2", "dest": ["n9"]}
    got: Row = {"run": rows[0]["run"], "node": "n9", "kind": "deliver", "origin": "n8~2", "deps": None}
    last = max(_pos(row) for row in rows if row["node"] == "n9")
    rows += [
        {**back, "pos": 0, "kind": "install", "origin": None, "seq": None, "deps": frontier},
        {**send, "pos": 1, "seq": 1, "deps": frontier},
        {**send, "pos": 2, "seq": 2, "deps": [], "carries": [{"origin": "n8", "seq": 10**6}]},
        {**got, "pos": last + 1, "seq": 1},
        {**got, "pos": last + 2, "seq": 2},
    ]
    return "n8~2 brings n8:1000000 of its former life to n9, after n8~2:1"


PLANTS: dict[str, Callable[[Rows], str]] = {
    "order": swap,
    "duplicate": repeat,
    "unsent": forge,
    "gap": skip,
    "lost": lose,
    "program": overtake,
    "unstable": rush,
    "tag": forget,
}

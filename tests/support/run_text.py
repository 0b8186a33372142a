"""Traces by hand: a few words per row, so that a test shows a whole run at a glance."""

from thence.trace.schema import Dot, Event


def dot(text: str) -> Dot:
    origin, _, seq = text.rpartition(":")
    return Dot(origin, int(seq))


def rows(node: str, *lines: str, run: str = "", group: str = "") -> list[Event]:
    """The rows of one node, at positions 0, 1, 2…

    A line is a kind, then if needed the message as `a:1`, `deps=a:1,b:2` (`deps=` for an empty
    list), `carries=a:1,b:2`, `dest=a,b`, `process=a` and `incarnation=2`.
    """
    events = []
    for pos, line in enumerate(lines):
        kind, *rest = line.split()
        named = [word for word in rest if "=" not in word]
        lists = dict(word.split("=") for word in rest if "=" in word)
        message = dot(named[0]) if named else None
        events.append(
            Event(
                run=run,
                group=group,
                node=node,
                pos=pos,
                kind=kind,
                origin=message.origin if message else None,
                seq=message.seq if message else None,
                deps=[dot(word) for word in lists["deps"].split(",") if word] if "deps" in lists else None,
                dest=lists["dest"].split(",") if "dest" in lists else None,
                process=lists.get("process"),
                incarnation=int(lists["incarnation"]) if "incarnation" in lists else None,
                carries=[dot(word) for word in lists["carries"].split(",")] if "carries" in lists else None,
            )
        )
    return events
